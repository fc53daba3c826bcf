"""Whether arguments are JSON, found out before anything is sent: so a mistake costs no call, and is told with its place."""

import math
import os

from . import errors
from .query import Query

DEEPEST = 100
_EXACT = 1 << 53  # the worker's numbers are IEEE doubles

_HINTS = {
    "set": "pass sorted({0}) or list({0})",
    "frozenset": "pass sorted({0}) or list({0})",
    "Decimal": "pass str({0}) or float({0})",
    "UUID": "pass str({0})",
    "Fraction": "pass float({0})",
    "complex": "pass str({0})",
    "bytes": "pass {0}.decode(), or base64.b64encode({0}).decode()",
    "bytearray": "pass {0}.decode(), or base64.b64encode({0}).decode()",
    "timedelta": "pass {0}.total_seconds()",
    "Match": "pass {0}[0]",
    "DataFrame": 'pass {0}.to_dict("records")',
    "coroutine": "await it first",
    "NAType": "pass None",
    "NaTType": "pass None",
}


def check(label, args, named):
    """Raises ToolArgumentError where one of them is no JSON; its message names the argument, the type and a way out."""
    for number, value in enumerate(args, 1):
        _check(value, f"argument {number}", label, "value")
    for name, value in named.items():
        _check(value, f"argument {name!r}", label, name if name.isidentifier() else "value")


def as_json(value):
    """What json.dumps is to make of values that are no JSON by themselves."""
    if isinstance(value, Query):
        return list(value)
    raise TypeError(f"{type(value).__name__} is no JSON")


def _check(value, argument, label, name):
    fault = _fault(value, name, 0)
    if fault is not None:
        place, words = fault
        at = "" if place == name else f" at {place}"
        raise errors.ToolArgumentError(f"{argument} of {label}{at}: {words}", label)


def _fault(value, place, depth):
    """None, or (place, words)."""
    kind = type(value)
    if value is None or kind is bool:
        return None
    if isinstance(value, str):
        return None if value.isascii() else _fault_of_text(value, place)
    if isinstance(value, int):
        if -_EXACT <= value <= _EXACT:
            return None
        return place, f"the integer {_short(value)} would lose digits on its way (it is beyond 2**53); pass str({place})"
    if isinstance(value, float):
        if math.isfinite(value):
            return None
        return place, f"{float(value)} is no JSON; pass None or a string"
    if depth > DEEPEST:
        return place, f"nested more than {DEEPEST} deep, or it contains itself"
    if isinstance(value, dict):
        for key, inner in value.items():
            if not isinstance(key, str):
                words = f"the key {_short(key)} is {_article(type(key).__name__)}, and keys of JSON are strings"
                return place, f"{words}; pass {{str(key): value for key, value in {place}.items()}}"
            found = _fault_of_text(key, place) or _fault(inner, f"{place}[{key!r}]", depth + 1)
            if found:
                return found
        return None
    if isinstance(value, (list, tuple, Query)):
        for index, inner in enumerate(value):
            if type(inner) is str and inner.isascii():
                continue
            found = _fault(inner, f"{place}[{index}]", depth + 1)
            if found:
                return found
        return None
    return place, f"{kind.__name__} is no JSON; {_hint(value, place)}"


def _fault_of_text(text, place):
    try:
        text.encode()
        return None
    except UnicodeEncodeError as error:
        words = f"the text has half a surrogate pair ({text[error.start]!a}) at {error.start}, which is no character"
        return place, f'{words}; pass {place}.encode("utf-8", "replace").decode()'


def _hint(value, place):
    kind = type(value)
    name = kind.__name__
    if name in _HINTS:
        return _HINTS[name].format(place)
    for method in ("isoformat", "tolist", "item"):
        # numpy's scalars have both, and their arrays only sensibly the one.
        if method == "tolist" and getattr(kind, "ndim", None) is not None and getattr(value, "ndim", 1) == 0:
            continue
        if callable(getattr(kind, method, None)):
            return f"pass {place}.{method}()"
    if isinstance(value, os.PathLike):
        return f"pass str({place})"
    if hasattr(kind, "__dataclass_fields__"):
        return f"pass dataclasses.asdict({place})"
    if hasattr(kind, "__members__"):
        return f"pass {place}.value"
    if hasattr(kind, "model_dump"):
        return f"pass {place}.model_dump()"
    if hasattr(kind, "__iter__"):
        return f"pass list({place})"
    if callable(value):
        return "call it, and pass what it returns"
    return f"pass str({place}), or a dict of its fields"


def _short(value):
    text = repr(value) if not isinstance(value, int) or value.bit_length() < 1000 else f"of {value.bit_length()} bits"
    return text if len(text) <= 40 else f"{text[:40]}…"


def _article(word):
    return f"an {word}" if word[0] in "aeiou" else f"a {word}"
