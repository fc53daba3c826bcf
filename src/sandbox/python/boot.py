"""Starts the template: python3 -s -B -X utf8 boot.py, with an empty environment and the worker on descriptor 3.

The folder of this file leaves sys.path before anything else is imported, so that no module of ours can hide one of the
standard library, here or in the code that is run later. Our own modules live in the package _sandbox.
"""

import sys

# Of a zygote that starts as a program of its own: what the template gives it, see core/renewal.py.
_given = globals().get("_given")
_here = sys.path.pop(0)

import importlib.abc  # noqa: E402
import importlib.machinery  # noqa: E402

PACKAGE = "_sandbox"


class _Ours(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """Loads core/ as the package _sandbox, under file names that tell the code in the sandbox nothing of this machine."""

    def __init__(self, sources):
        self.sources = sources  # module: its text, kept for later, when these files are out of sight

    def find_spec(self, fullname, path=None, target=None):
        if fullname.partition(".")[0] != PACKAGE:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=fullname == PACKAGE)

    def get_source(self, fullname):
        name = fullname.partition(".")[2] or "__init__"
        if name not in self.sources:
            with open(f"{_here}/core/{name}.py", encoding="utf-8") as file:
                self.sources[name] = file.read()
        return self.sources[name]

    def exec_module(self, module):
        name = module.__name__.partition(".")[2] or "__init__"
        module.__file__ = f"<sandbox>/{name}.py"
        exec(compile(self.get_source(module.__name__), module.__file__, "exec"), module.__dict__)


_ours = _Ours({} if _given is None else _given["sources"])
sys.meta_path.insert(0, _ours)

from _sandbox import renewal, template  # noqa: E402

sys.meta_path.remove(_ours)
if _given is None:
    del sys.modules["__main__"].__file__
    template.main(_here, _ours, sys._getframe().f_code)
else:
    renewal.take_over(_given, _ours)
