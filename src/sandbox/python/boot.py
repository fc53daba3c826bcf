"""Starts the template: run by python3 -s -B -X utf8 -c with `_file` set to its own path, under a name that tells nothing of
this machine, with an empty environment and the worker on descriptor 3.

The current folder leaves sys.path before anything else is imported, so that nothing can hide a module of the standard library,
here or in the code that is run later. Our own modules live in the package _sandbox. The frame of this module is below that of
each piece of code that is run: what it has in its variables can be found.
"""

import sys

# Of a zygote that starts as a program of its own: what the template gives it, see core/renewal.py.
_given = globals().get("_given")
sys.path.pop(0)

import marshal  # noqa: E402
import os  # noqa: E402

PACKAGE = "_sandbox"
_OF_ZYGOTES = (
    "renewal zygote guest placing execute exceptions leaving reporter surroundings random_state shims outgoing toolbox "
    "showing stage notebook figures pictures representation tables markup"  # and not of the template
).split()
TOOLBOX = "toolbox"
_ModuleSpec = type(sys.__spec__)


def _read(folder):
    """All sources at once: {module: its text}. A zygote imports its modules where these files are out of sight."""
    sources = {}
    for package, prefix in (("core", ""), (TOOLBOX, f"{TOOLBOX}.")):
        for name in os.listdir(f"{folder}/{package}"):
            if name.endswith(".py"):
                with open(f"{folder}/{package}/{name}", encoding="utf-8") as file:
                    sources[prefix + name[:-3]] = file.read()
    return sources


def _path(name):
    return f"<sandbox>/{name.replace('.', '/')}.py"


def _compile(name, source):
    # Docstrings would only take room, but for those that help() shows to the code.
    return compile(source, _path(name), "exec", optimize=1 if name.startswith(f"{TOOLBOX}.") else 2)


class Ours:
    """Finds and loads core/ as the package _sandbox and toolbox/ as _sandbox.toolbox, under file names that tell the code in the
    sandbox nothing of this machine."""

    def __init__(self, sources):
        self.sources = sources
        sys.meta_path.insert(0, self)

    def find_spec(self, fullname, path=None, target=None):
        if fullname.partition(".")[0] != PACKAGE:
            return None
        return _ModuleSpec(fullname, self, is_package=fullname in (PACKAGE, f"{PACKAGE}.{TOOLBOX}"))

    def create_module(self, spec):
        return None

    def exec_module(self, module):
        name = module.__name__.partition(".")[2] or "__init__"
        if name == TOOLBOX:
            name += ".__init__"
        module.__file__ = _path(name)
        source = self.sources[name]
        exec(marshal.loads(source) if type(source) is bytes else _compile(name, source), module.__dict__)

    def compile(self, *but):
        """All modules that are not imported yet, but those named. What compiling leaves behind in memory would lie between
        what is imported, so this comes before the holes are filled (core/holes.py)."""
        for name, source in self.sources.items():
            if type(source) is str and name.partition(".")[0] not in but and f"{PACKAGE}.{name}" not in sys.modules:
                self.sources[name] = marshal.dumps(_compile(name, source))

    def retire(self):
        """All that this process will ever need of ours is imported."""
        sys.meta_path.remove(self)
        self.sources.clear()


_here = None if _given is not None else os.path.dirname(globals().pop("_file"))
_ours = Ours(_read(_here) if _given is None else _given["sources"])

if _given is None:
    # What zygotes alone need, they compile while the worker does other things.
    _ours.compile(*_OF_ZYGOTES)
    from _sandbox import template

    template.main(globals().pop("_here"), _ours, sys._getframe().f_code)
else:
    from _sandbox import renewal

    renewal.take_over(_given, _ours)
