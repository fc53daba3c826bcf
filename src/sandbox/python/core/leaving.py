"""The end of the code: what Py_Finalize does that code can notice."""

import atexit
import gc
import io
import sys
import threading
import traceback
import types
import weakref

from . import exceptions

_last_of_zygote = ""


def forget_machinery():
    """In the zygote, when all is imported: our own modules can no longer be, and what comes after this name is the guest's."""
    global _last_of_zygote
    for name in [name for name in sys.modules if name.partition(".")[0] == "_sandbox"]:
        del sys.modules[name]
    _last_of_zygote = next(reversed(sys.modules))


def leave(held, places, show):
    """What Py_Finalize does that code can notice, without the price of taking down every imported library.

    held: [the main module], the only reference to it besides sys.modules. show: shows what is still to be shown, before the hooks of
    libraries put it away.
    """
    for action in (threading._shutdown, show, atexit._run_exitfuncs):
        try:
            action()
        except BaseException as error:
            traceback.clear_frames(error.__traceback__)
            exceptions.write_error("".join(traceback.format_exception(error)))
    own = own_modules(places)
    held += own.values()
    for name in ("__main__", *own):
        sys.modules[name] = None
    own.clear()
    alive = [weakref.ref(one) for one in held]
    held.clear()
    flush_files()
    collect()  # destructors run while the names that they use are still there
    left = [module for module in (one() for one in alive) if module is not None]
    if left:
        for module in left:
            _empty(module.__dict__)
        collect()


def collect():
    try:
        gc.collect()
    except BaseException:
        pass


def flush_files():
    """What was written to a file that nobody closed: in a reference cycle its parts die in an order that loses it."""
    for one in gc.get_objects():
        if type(one) in (io.TextIOWrapper, io.BufferedWriter, io.BufferedRandom):
            try:
                one.flush()
            except BaseException:
                pass


def own_modules(places):
    """Modules of the run's own files. Only those imported since the fork are looked at: to touch one that the zygote
    imported is to copy its page."""
    found = {}
    names = []
    try:
        for name in reversed(sys.modules):  # one by one: a list of all names would touch each of them
            if name == _last_of_zygote:
                break
            names.append(name)
    except Exception:  # a thread of the code's imports something meanwhile, or it is no dict any more
        names = list(reversed(list(sys.modules)))
    for name in names:
        other = sys.modules.get(name)
        # What is in there may be anything, and do anything when it is asked.
        file = other.__dict__.get("__file__") if type(other) is types.ModuleType else None
        if isinstance(file, str) and file.startswith(places.work + "/"):
            found[name] = other
    return found


def _empty(names):
    """Lets go of a module's names one after the other, as the interpreter's end does, so that destructors run."""
    for name in [n for n in names if n.startswith("_") and n != "__builtins__"] + [n for n in names if n != "__builtins__"]:
        try:
            names[name] = None
        except BaseException:
            pass
