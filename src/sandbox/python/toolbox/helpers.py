"""Small helpers for scripts."""

import json
import shlex
import time

from . import errors

_IN_VAIN = (
    errors.UnknownTool,
    errors.ToolArgumentError,
    errors.ToolDenied,
    errors.ToolNeedsConfirmation,
    errors.ToolBudgetExceeded,
)


def json_parse(text):
    """The value of a JSON text (str or bytes) that may begin with a byte order mark and have raw control characters, such as
    tabs and newlines, in its strings. Raises ValueError with the place where it is no JSON."""
    if isinstance(text, (bytes, bytearray, memoryview)):
        data = bytes(text)
        text = data.decode("utf-8-sig" if data.startswith(b"\xef\xbb\xbf") else json.detect_encoding(data))
    if not isinstance(text, str):
        raise TypeError(f"json_parse takes str or bytes; this is {type(text).__name__}, which is parsed already")
    return json.loads(text.lstrip("\ufeff"), strict=False)


def shell_quote(text):
    """The text as one word of a shell command: terminal(f"wc -l {shell_quote(name)}")."""
    return shlex.quote(str(text))


def retry(fn, max_attempts=3, delay=2):
    """What fn() returns, tried up to max_attempts times with pauses of delay, 2 × delay, 4 × delay … seconds. Errors that
    another attempt can not mend (no such tool, denied, wrong arguments, budget used up, a result that is too large) are
    raised at once."""
    if max_attempts < 1:
        raise ValueError(f"max_attempts is {max_attempts}; it must be at least 1")
    for attempt in range(max_attempts):
        try:
            return fn()
        except Exception as error:
            in_vain = isinstance(error, _IN_VAIN) or getattr(error, "kind", None) in ("ended", "lost")
            if attempt == max_attempts - 1 or in_vain:
                raise
        time.sleep(delay * 2**attempt)


PUBLIC = (json_parse, shell_quote, retry)
for _one in PUBLIC:
    _one.__module__ = "tools"
