"""Puts the toolbox where code finds it. All that can be made beforehand is made when this is imported, in the zygote."""

import builtins
import importlib.machinery
import importlib.util
import sys
import threading

from .. import exceptions, outgoing
from . import errors, helpers, hermes, namespace, places, query
from .aio import aio
from .calls import Calls
from .catalog import Catalog

_calls = Calls()
_catalog = Catalog(_calls)
_more = {one.__name__: one for one in (*helpers.PUBLIC, query.query)}
_aio = aio(_catalog)
_tools = namespace.tools(_catalog, {**_more, "aio": _aio})
_hermes = hermes.module(_calls)
_builtin = {"tools": _tools, **{name: getattr(_tools, name) for name in ("ls", "read", "call_tool")}}


class _Own:
    """A module, package or folder `tools` of the code's own. It hides nothing of the toolbox, and the toolbox hides of it only
    the names that both have: others are found in it. Not under the restricted policy, for what a module does passes no guard."""

    def __init__(self):
        self._module = None

    def spec(self):
        find = importlib.machinery.PathFinder
        find.invalidate_caches()  # it may have been written a moment ago
        return find.find_spec("tools")

    def submodule(self, name):
        spec = self.spec()
        places = None if spec is None else spec.submodule_search_locations
        return None if places is None else importlib.machinery.PathFinder.find_spec(name, places)

    def __call__(self, name):
        """The module's own `name`. Raises AttributeError, and whatever the module raises."""
        if self._module is None:
            spec = self.spec()
            if spec is None or spec.loader is None:
                raise AttributeError(name)
            self._module = importlib.util.module_from_spec(spec)
            spec.loader.exec_module(self._module)
        return getattr(self._module, name)


_own = _Own()


class _Finder:
    """Finds `tools`, what is in it, and `hermes_tools`; first, so that no file or folder in the workspace hides them."""

    def find_spec(self, name, path=None, target=None):
        first, *rest = name.split(".")
        if first == "hermes_tools" and not rest:
            return _spec(name, self)
        if first != "tools" or len(rest) > 3 or rest and sys.modules.get("tools") is not _tools:
            return None
        if len(rest) > 1 and not isinstance(sys.modules.get(name.rpartition(".")[0]), _OF_TOOLBOX):
            return None  # of a module of the code's own
        if rest:
            try:
                self._find(rest, name)
            except ImportError:
                own = None if _tools.__dict__["_own"] is None else _own.submodule(name)
                if own is None:
                    raise
                return own
        return _spec(name, self)

    def _find(self, names, name):
        found = _tools
        for one in names:
            if isinstance(found, namespace.tool):
                return None
            try:
                found = found.__dict__[one] if one in getattr(found, "_members", ()) else found[one]
            except errors.UnknownTool as error:
                # No ModuleNotFoundError: of that one `from tools import x` keeps only the name.
                raise ImportError(str(error), name=name) from None
        return found

    def create_module(self, spec):
        if spec.name == "hermes_tools":
            return _hermes
        return self._find(spec.name.split(".")[1:], spec.name)

    def exec_module(self, module):
        """It is made already."""


def _spec(name, finder):
    return importlib.machinery.ModuleSpec(name, finder, is_package=name != "hermes_tools")


_OF_TOOLBOX = (namespace.Namespace, namespace.category, namespace.tool)
_finder = _Finder()
_show = threading.excepthook


def _show_of_thread(args):
    """The code's own frames only, as for the main thread."""
    kind, error, trace, thread = args
    if error is not None:
        exceptions.hide_machinery(error)
        trace = error.__traceback__
    _show(threading.ExceptHookArgs((kind, error, trace, thread)))


def install(incoming, outgoing_fd, options):
    """In a settled guest whose run has a toolbox, before the code is run: nothing is imported, asked or started by it.

    incoming, outgoing_fd: the pipes from and to the warden, the second shared with the Reporter of core/execute.py.
    options: {"work": the workspace, "progress": whether each call prints a line to stdout, "restricted": whether the code is}.
    """
    places.settle(options["work"])
    _calls.open(incoming, outgoing.of(outgoing_fd), bool(options.get("progress")))
    names = vars(builtins)
    for name, value in _builtin.items():
        names.setdefault(name, value)
    _tools.__dict__["_own"] = None if options.get("restricted") else _own
    sys.meta_path.insert(0, _finder)
    threading.excepthook = _show_of_thread
