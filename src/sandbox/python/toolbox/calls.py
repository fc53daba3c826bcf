"""One call of a tool, from its arguments to its result; and the other requests."""

import asyncio
import json
import sys
import time

from . import arguments, errors, files, patch, search, terminal
from .channel import Channel

LOCAL = {
    ("files", "read_file"): files.read_file,
    ("files", "write_file"): files.write_file,
    ("files", "search"): search.search,
    ("files", "patch"): patch.patch,
    ("shell", "terminal"): terminal.terminal,
}
_SLOW = {terminal.terminal}
_clock = time.monotonic


class Calls:
    """The requests of one run. Without a channel: there is no toolbox."""

    def __init__(self):
        self._channel = None
        self._progress = False

    def open(self, incoming, outgoing, progress):
        self._progress = progress
        self._channel = Channel(incoming, outgoing)

    def call(self, category, tool, args, named):
        """The tool's result. Raises ToolError."""
        label, message = _request(category, tool, args, named)
        with _Told(self._begin(label), label):
            payload, number = self._usable().ask(message)
            answer = _understand(payload, label)
            return self._run_here(label, number, answer) if answer.get("local") is True else answer.get("value")

    async def call_async(self, category, tool, args, named):
        """As `call`, for a task."""
        label, message = _request(category, tool, args, named)
        with _Told(self._begin(label), label):
            payload, number = await self._usable().ask_async(message)
            answer = _understand(payload, label)
            if answer.get("local") is not True:
                return answer.get("value")
            if LOCAL.get(_names(label)) in _SLOW:
                return await asyncio.to_thread(self._run_here, label, number, answer)
            return self._run_here(label, number, answer)

    def request(self, op, **fields):
        """The value that another request than a call is answered with. Raises ToolError."""
        payload, _ = self._usable().ask({"op": op, **fields})
        return _understand(payload, None).get("value")

    async def request_async(self, op, **fields):
        payload, _ = await self._usable().ask_async({"op": op, **fields})
        return _understand(payload, None).get("value")

    def _usable(self):
        if self._channel is None:
            raise errors.ToolError("this run has no tools", kind="ended")
        return self._channel

    def _run_here(self, label, number, answer):
        run = LOCAL.get(_names(label))
        value = None
        try:
            if run is None:
                raise errors.ToolError(f"{label} can't be run in the sandbox", label)
            value = run(**answer.get("kw", {}))
            return value
        except errors.ToolError as error:
            self._tell_done(number, None, error)
            raise
        except Exception as error:
            words = f"{error.strerror}: {error.filename}" if isinstance(error, OSError) and error.strerror else str(error)
            failure = errors.ToolError(words or type(error).__name__, label)
            self._tell_done(number, None, failure)
            raise failure from None
        except BaseException as error:
            self._tell_done(number, None, error)
            raise
        finally:
            if value is not None:
                self._tell_done(number, value, None)

    def _tell_done(self, number, value, error):
        """The end of a tool that ran here, for the ledger."""
        size = 0 if error is not None else len(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))
        words = None if error is None else (str(error) or type(error).__name__).encode("utf-8", "replace").decode()[:2000]
        try:
            self._usable().tell({"op": "done", "of": number, "ok": error is None, "error": words, "bytes": size})
        except errors.ToolError:
            pass  # the result is there all the same

    def _begin(self, label):
        """A function to be told how the call ended."""
        if not self._progress:
            return _say_nothing
        started = _clock()

        def note(error):
            took = _clock() - started
            end = "" if error is None else f", failed: {(str(error) or type(error).__name__).splitlines()[0][:200]}"
            try:
                sys.stdout.write(f"→ {label} … {took:.1f} s{end}\n")
            except Exception:
                pass  # the code closed or replaced it

        return note


def _say_nothing(error):
    return None


class _Told:
    """Tells `note` how a call ended; a ToolError that leaves it knows its tool, and shows none of the frames it came through."""

    def __init__(self, note, label):
        self._note, self._label = note, label

    def __enter__(self):
        return self

    def __exit__(self, _kind, error, _trace):
        self._note(error)
        if isinstance(error, errors.ToolError):
            error.tool = error.tool or self._label
            raise error.with_traceback(None) from None


def _request(category, tool, args, named):
    for what, name in (("category", category), ("tool", tool)):
        if not isinstance(name, str):
            raise errors.ToolArgumentError(f"the name of a {what} is a str, not {type(name).__name__}")
        arguments.check("the call", (name,), {})
    label = f"{category}.{tool.removesuffix('.py')}"
    arguments.check(label, args, named)
    return label, {"op": "call", "category": category, "tool": tool, "args": args, "kw": named}


def _names(label):
    category, _, tool = label.partition(".")
    return category, tool


def _understand(payload, label):
    """The answer as a dict, when it is one of success."""
    try:
        answer = _loaded(payload)
    except RecursionError:
        raise errors.ToolError("the result is nested too deeply for Python's json", label) from None
    except ValueError as error:
        raise errors.ToolError(f"the result is no JSON in UTF-8: {error}", label) from None
    if answer.get("ok") is True:
        return answer
    raise errors.of_kind(answer.get("kind"), str(answer.get("message", "the call failed")), label)


def _loaded(payload):
    try:
        return json.loads(payload)
    except (json.JSONDecodeError, UnicodeDecodeError):
        raise
    except ValueError:
        # An integer of more digits than Python makes of text; of a Decimal it does.
        from decimal import Decimal

        return json.loads(payload, parse_int=lambda digits: int(Decimal(digits)))
