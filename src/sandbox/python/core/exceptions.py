"""Shows an exception that ended the code as the interpreter would, with the code's own frames only."""

import io
import sys
import traceback
import types

LONG_CHAIN = 100  # of exceptions: the interpreter, which prints them by recursion, would be lost in one of a thousand
_main_path = ""


def of_file(path):
    """Where the code that is run comes from."""
    global _main_path
    _main_path = path


def show():
    """Prints the exception as the interpreter would, with the code's own frames only."""
    kind, error, _ = sys.exc_info()
    hide_machinery(error)
    hook = sys.excepthook
    if hook is sys.__excepthook__:
        write_error(_format(error))
        return
    try:
        hook(kind, error, error.__traceback__)
    except BaseException as broken:
        hide_machinery(broken)
        broken.__context__ = None
        write_error(f"Error in sys.excepthook:\n{_format(broken)}\nOriginal exception was:\n{_format(error)}")


def _format(error):
    """The interpreter's own words: only it knows the suggestions ("Did you mean"), before Python 3.12."""
    if len(_related(error)) > LONG_CHAIN:
        return "".join(traceback.format_exception(error))
    stderr, sys.stderr = sys.stderr, io.StringIO()
    try:
        sys.__excepthook__(type(error), error, error.__traceback__)
        return sys.stderr.getvalue()
    finally:
        sys.stderr = stderr


def hide_machinery(error):
    """Drops our own frames, here and in the exceptions behind and within this one."""
    for one in _related(error):
        try:
            one.__traceback__ = _of_the_code(one.__traceback__)
        except Exception:
            pass  # a class of the code's own, whose attributes may be anything


def _related(error):
    """An exception and those behind and within it, without recursion: code can make a chain of any length."""
    found = {}
    pending = [error]
    while pending:
        one = pending.pop()
        if not isinstance(one, BaseException) or id(one) in found:
            continue
        found[id(one)] = one
        try:
            pending += (one.__cause__, one.__context__, *(getattr(one, "exceptions", None) or ()))
        except Exception:
            pass  # as above
    return list(found.values())


def _of_the_code(trace):
    """A traceback without our own frames."""
    steps = []
    while trace is not None:
        if trace.tb_frame.f_code.co_filename[:10] != "<sandbox>/":
            steps.append(trace)
        trace = trace.tb_next
    # The first frames are those of the event loop when the code awaits at its top level.
    while steps and _is_loop(steps[0]) and any(step.tb_frame.f_code.co_filename == _main_path for step in steps):
        del steps[0]
    shown = None
    for step in reversed(steps):
        shown = types.TracebackType(shown, step.tb_frame, step.tb_lasti, step.tb_lineno)
    return shown


def _is_loop(step):
    return step.tb_frame.f_globals.get("__name__", "").partition(".")[0] == "asyncio"


def write_error(text):
    try:
        sys.stderr.write(text)
    except Exception:
        pass  # the code closed or replaced it
