"""Runs the code as a real __main__ from a real file, and ends the process as an interpreter would."""

import ast
import asyncio
import builtins
import os
import signal
import sys
import types
import weakref
from importlib.machinery import SourceFileLoader

from . import exceptions, leaving, reporter, showing, stage, surroundings

_BOM = b"\xef\xbb\xbf"
_exit = os._exit  # the code may replace what it finds in os
_AWAIT = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT
_FUTURES = 0
for _name in __import__("__future__").all_feature_names:
    _FUTURES |= getattr(__import__("__future__"), _name).compiler_flag


def _new_main(path):
    module = types.ModuleType("__main__")
    module.__file__ = path
    module.__builtins__ = builtins
    module.__loader__ = SourceFileLoader("__main__", path)
    module.__annotations__ = {}
    module.__cached__ = None
    return module


def run(source, places, words, policy=None):
    """Does not return. policy: core/restriction.py, or None for code that may do whatever the sandbox lets it."""
    path = f"{places.code}/main.py"  # written by the warden
    exceptions.of_file(path)
    reports = reporter.Reporter(words, places.work if places.own_tree else None, source)
    reporter.install(reports)
    stage.begin(reports, places.work)
    module = sys.modules["__main__"] = _new_main(path)
    sys.orig_argv[:] = [sys.executable, path]
    code = 1
    interrupted = False
    try:
        value = _execute(source, path, module.__dict__, policy)
        if value is not None:
            showing.last(stage.current(), value, reports)
        del value
        code = 0
    except SystemExit as error:
        code = _exit_code(error)
    except BaseException as error:
        interrupted = isinstance(error, KeyboardInterrupt)
        reports.limit(error)
        exceptions.show()
    held = [module]
    del module
    leaving.leave(held, places, lambda: showing.finish(stage.current(), reports))
    if interrupted:
        # As an interpreter does, so that whoever looks at the end sees an interruption and not a failure.
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGINT)
    _exit(code)


def rehearse(places):
    """The way of a small run, without what would change this process."""
    stream = surroundings.text_stream(2, "<stderr>")
    stream.write("")
    del stream
    module = _new_main(f"{places.code}/main.py")
    _execute(b"import sys\nsum([1])\n1 + 1", module.__file__, module.__dict__)
    alive = [weakref.ref(module)]
    del module
    leaving.own_modules(places)
    leaving.flush_files()
    leaving.collect()
    return [one() for one in alive]


def _exit_code(error):
    if error.code is None:
        return 0
    if isinstance(error.code, int):
        return error.code & 0xFF
    exceptions.write_error(f"{error.code}\n")
    return 1


def _compile(source, path, policy=None):
    """(code of all but a last expression, code of that expression or None); hides the value after a semicolon."""
    # Not as "utf-8-sig": each guest would import that codec.
    text = source.removeprefix(_BOM).decode()  # as text: a coding cookie that a model left in does not turn UTF-8 into something else
    tree = compile(text, path, "exec", ast.PyCF_ONLY_AST | _AWAIT, dont_inherit=True)
    if policy is not None:
        tree = policy.rewrite(tree, path, text)
    last = tree.body[-1] if tree.body else None
    if not isinstance(last, ast.Expr) or _ends_with_semicolon(source, last):
        return compile(tree, path, "exec", _AWAIT, dont_inherit=True), None
    only_docstring = len(tree.body) == 1
    body = ast.Module(tree.body if only_docstring else tree.body[:-1], tree.type_ignores)
    if only_docstring and not isinstance(last.value, ast.Constant):
        body = ast.Module([], tree.type_ignores)
    first = compile(body, path, "exec", _AWAIT, dont_inherit=True)
    flags = first.co_flags & _FUTURES | _AWAIT
    return first, compile(ast.Expression(last.value), path, "eval", flags, dont_inherit=True)


def _ends_with_semicolon(source, last):
    """Whether a semicolon follows the last expression, comments aside. Columns of the tree are in bytes of UTF-8."""
    lines = source.removeprefix(_BOM).splitlines()
    rest = [lines[last.end_lineno - 1][last.end_col_offset :], *lines[last.end_lineno :]]
    return b";" in b"".join(line.partition(b"#")[0] for line in rest)


def _execute(source, path, names, policy=None):
    first, last = _compile(source, path, policy)
    if policy is not None:
        policy.prepare(names)
    coroutines = [code for code in (first, last) if code is not None and code.co_flags & 0x80]  # CO_COROUTINE
    if not coroutines:
        exec(first, names)
        return None if last is None else eval(last, names)

    async def main():
        value = None
        for code in (first, last):
            if code is not None:
                value = eval(code, names)
                if code in coroutines:
                    value = await value
        return value if last is not None else None

    return asyncio.run(main())
