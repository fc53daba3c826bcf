"""What code for notebooks expects: display() without an import, figures that are shown, and a small stand-in for IPython.display
where IPython is not installed."""

import builtins
import importlib.machinery
import os
import sys
import types

from . import figures, showing


def prepare():
    """In the zygote, after its imports."""
    builtins.display = showing.display
    for name, action in _AFTER.items():
        if name in sys.modules:
            action(sys.modules[name])
    sys.meta_path.insert(0, _Hooks())
    sys.meta_path.append(_Finder())


def _hook_ipython(module):
    module.display = showing.display


_AFTER = {
    "matplotlib.figure": figures.hook_figure,
    "matplotlib.pyplot": figures.hook_pyplot,
    "IPython.core.display_functions": _hook_ipython,  # from where IPython.display has it
}


class _Hooks:
    """Has some modules changed as soon as they are imported; all others are found as ever."""

    def find_spec(self, name, path=None, target=None):
        action = _AFTER.get(name)
        if action is None:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(name, path, target)
            if spec is not None:
                if spec.loader is not None:
                    spec.loader = _Loader(spec.loader, action)
                return spec
        return None


class _Loader:
    def __init__(self, loader, action):
        self._loader = loader
        self._action = action

    def create_module(self, spec):
        return self._loader.create_module(spec)

    def exec_module(self, module):
        module.__loader__ = module.__spec__.loader = self._loader
        self._loader.exec_module(module)
        try:
            self._action(module)
        except Exception:
            pass  # a module of the code's own that has this name


class _Object:
    """What is shown of data that the code has, or a file of its own."""

    _method = None

    def __init__(self, data=None, url=None, filename=None, **_):
        if isinstance(data, os.PathLike):
            data, filename = None, data
        if data is None and filename is not None:
            with open(filename, "rb") as file:
                data = file.read()
        if data is None and url is not None:
            data = f"[not loaded, as there is no network: {url}]".encode()
        self.data = data
        self.url = url
        self.filename = filename

    def _text(self):
        return self.data.decode("utf-8", "replace") if isinstance(self.data, bytes) else self.data


class Image(_Object):
    def __init__(self, data=None, url=None, filename=None, **_):
        if isinstance(data, str):
            data, url, filename = (None, data, filename) if "://" in data else (None, url, data)
        super().__init__(data, url, filename)

    def _repr_png_(self):
        return self.data if bytes(self.data[:4]) == b"\x89PNG" else None

    def _repr_jpeg_(self):
        return self.data if bytes(self.data[:3]) == b"\xff\xd8\xff" else None

    def _repr_markdown_(self):
        return self._text() if self.url is not None else None


class HTML(_Object):
    def _repr_html_(self):
        return self._text()


class Markdown(_Object):
    def _repr_markdown_(self):
        return self._text()


class Latex(Markdown):
    pass


class Math(Markdown):
    pass


class Code(Markdown):
    pass


class Pretty(Markdown):
    pass


class SVG(_Object):
    def _repr_svg_(self):
        return self._text()


class JSON(_Object):
    def _repr_markdown_(self):
        import json

        return self.data if isinstance(self.data, str) else json.dumps(self.data, indent=1, default=str)


class GeoJSON(JSON):
    pass


class _NotShown:
    """Something that only a browser can show."""

    def __init__(self, *args, **kwargs):
        self._given = next((one for one in (*args, *kwargs.values()) if isinstance(one, (str, os.PathLike))), "")

    def _repr_markdown_(self):
        given = str(self._given)
        about = f": {given}" if 0 < len(given) <= 200 else ""
        return f"[{type(self).__name__} can not be shown here{about}]"


_NOT_SHOWN = "Audio Video IFrame YouTubeVideo VimeoVideo ScribdDocument Javascript FileLink FileLinks".split()


def _showing_raw(kind):
    """Of the functions that show objects, or with raw=True what an object of that kind is made of."""

    def show(*objs, raw=False, **_):
        showing.display(*(kind(one) if raw else one for one in objs))

    return show


def publish_display_data(data, metadata=None, **_):
    showing.display(data, raw=True)


def update_display(obj, **_):
    """What was shown is shown: this comes after it."""
    showing.display(obj)


def clear_output(wait=False):
    """Nothing: what was shown is shown."""


def set_matplotlib_formats(*_, **__):
    """Nothing: figures are shown as PNG."""


def _no_shell():
    """There is none."""
    return None


_KINDS = (Image, HTML, Markdown, Latex, Math, Code, Pretty, SVG, JSON, GeoJSON)
_NAMES = {one.__name__: one for one in (*_KINDS, publish_display_data, update_display, clear_output, set_matplotlib_formats)}
_NAMES.update({name: type(name, (_NotShown,), {}) for name in _NOT_SHOWN})
_NAMES.update({f"display_{one.__name__.lower()}": _showing_raw(one) for one in (HTML, Markdown, Latex, Pretty, SVG, JSON)})
_NAMES.update(display_png=_showing_raw(Image), display_jpeg=_showing_raw(Image), display_javascript=_showing_raw(_NAMES["Javascript"]))
_NAMES.update(display=showing.display, DisplayHandle=showing.DisplayHandle, DisplayObject=_Object, TextDisplayObject=_Object)
_NAMES.update(set_matplotlib_close=set_matplotlib_formats)
# Libraries that find "IPython" among the modules ask whether there is a shell.
_SHELL = {"get_ipython": _no_shell, "version_info": (0, 0, 0, ""), "__version__": "0.0.0"}
_MODULES = {
    "IPython": _SHELL,
    "IPython.core": {},
    "IPython.core.display": _NAMES,
    "IPython.core.getipython": _SHELL,
    "IPython.display": _NAMES,
}


class _Finder:
    """Last on the path of finders: only where IPython is not installed."""

    def find_spec(self, name, path=None, target=None):
        if name not in _MODULES or name != "IPython" and not isinstance(getattr(sys.modules.get("IPython"), "__loader__", None), _Finder):
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=name in ("IPython", "IPython.core"))

    def create_module(self, spec):
        return types.ModuleType(spec.name, "A stand-in: IPython is not installed. It has what code needs to show things.")

    def exec_module(self, module):
        vars(module).update(_MODULES[module.__name__])
        if module.__name__ == "IPython":
            for name in ("IPython.core.display", "IPython.display"):
                importlib.import_module(name)  # as the real one does: code uses them by their whole names
