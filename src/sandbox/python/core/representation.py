"""The richest representation of an object that a model can read: PNG, JPEG, Markdown, SVG, HTML as text; by the methods that
notebooks know (IPython's documentation, "Rich display")."""

import base64

from . import markup

SVG_CHARS = 10_000
_MIMES = {
    "image/png": "_repr_png_",
    "image/jpeg": "_repr_jpeg_",
    "text/markdown": "_repr_markdown_",
    "image/svg+xml": "_repr_svg_",
    "text/html": "_repr_html_",
}


class Rich:
    """At most one of image, text and svg; failures: [(method, error)] of what came before in the order of preference. done: the
    object has shown itself."""

    def __init__(self):
        self.image = self.text = self.svg = None
        self.failures = []
        self.done = False


def of(one):
    """Never raises an Exception."""
    rich = Rich()
    kind = type(one)
    # On the class, as Python looks for its own: objects that answer to any name, such as mocks, have none of these.
    if isinstance(one, type):
        return rich
    if hasattr(kind, "_ipython_display_"):
        if _called(rich, one, "_ipython_display_", default=_FAILED) is not _FAILED:
            rich.done = True
            return rich
    bundle = {}
    if hasattr(kind, "_repr_mimebundle_"):
        found = _called(rich, one, "_repr_mimebundle_", call=_bundled)
        bundle = found[0] if isinstance(found, tuple) and found else found
    _choose(rich, bundle if isinstance(bundle, dict) else {}, one)
    return rich


def of_bundle(bundle):
    """bundle: {media type: data}, as display(raw=True) takes it."""
    rich = Rich()
    _choose(rich, bundle, None)
    if rich.image is rich.text is rich.svg is None and isinstance(bundle.get("text/plain"), str):
        rich.text = bundle["text/plain"]
    return rich


_FAILED = object()


def _is_said(plain):
    """Whether a plain text says more than "<A object at 0x7f…>"."""
    return isinstance(plain, str) and not (plain.startswith("<") and plain.endswith(">"))


def _called(rich, one, method, default=None, call=lambda found: found()):
    try:
        found = getattr(one, method)
    except AttributeError:
        return default  # a property, by which the class says that this object has none
    except Exception as error:
        rich.failures.append((method, error))
        return default
    try:
        return call(found)
    except Exception as error:
        rich.failures.append((method, error))
        return default


def _bundled(method):
    """IPython gives both, and the methods of some classes have to have them; those of others take none."""
    import inspect

    try:
        inspect.signature(method).bind(include=None, exclude=None)
    except TypeError:
        return method()
    except ValueError:
        pass  # of compiled code, which does not tell
    return method(include=None, exclude=None)


def _choose(rich, bundle, one):
    plain = bundle.get("text/plain")
    for mime, method in _MIMES.items():
        data = bundle.get(mime)
        if data is None and one is not None and hasattr(type(one), method):
            data = _called(rich, one, method)
        if isinstance(data, tuple) and data:
            data = data[0]  # with metadata
        if data is None:
            continue
        try:
            if _take(rich, mime, data, plain if _is_said(plain) else None):
                return
        except Exception as error:
            rich.failures.append((method, error))


def _take(rich, mime, data, plain):
    if mime.startswith("image/") and mime != "image/svg+xml":
        rich.image = base64.b64decode(data) if isinstance(data, str) else bytes(data)
        return True
    if not isinstance(data, str):
        raise TypeError(f"expected a str, not {type(data).__name__}")
    if mime == "text/markdown":
        rich.text = data
    elif mime == "image/svg+xml":
        rich.svg = data
        return len(data) <= SVG_CHARS  # else what comes after it is looked at as well
    else:
        text = markup.to_text(data, plain)
        if text is None:
            return False
        rich.text = text
    return True
