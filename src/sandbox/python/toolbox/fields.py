"""Fields of records, and an order among values of any types: what query() is made of."""

import datetime
import json
import math
import re
from collections.abc import Mapping

MISSING = object()


def pick(row, path):
    """A field by its name, or by names joined with dots or double underscores. None where it is not there."""
    found = _pick(row, path)
    for separator in (".", "__"):
        if found is MISSING and separator in path:
            found = row
            for name in path.split(separator):
                found = _pick(found, name)
                if found is MISSING:
                    break
    return None if found is MISSING else found


def _pick(row, name):
    if isinstance(row, Mapping):
        return row.get(name, MISSING)
    if isinstance(row, (list, tuple)) and name.lstrip("-").isdigit():
        index = int(name)
        return row[index] if -len(row) <= index < len(row) else MISSING
    return getattr(row, name, MISSING) if name.isidentifier() and not name.startswith("_") else MISSING


def getter(key):
    """The function that a key stands for: None (the row itself), a field, several fields, or a function."""
    if key is None:
        return lambda row: row
    if callable(key):
        return key
    if isinstance(key, str):
        return lambda row: pick(row, key)
    if isinstance(key, (list, tuple)) and all(isinstance(name, str) for name in key):
        return lambda row: tuple(pick(row, name) for name in key)
    raise TypeError(f"a key is a field's name, several names, or a function; this is {type(key).__name__}")


def matcher(path, wanted):
    """Whether a field is as wanted: text and patterns are searched for as regular expressions, functions are asked, sets, lists
    and tuples have it as a member, everything else is equal to it."""
    if isinstance(wanted, (str, re.Pattern)):
        pattern = re.compile(wanted)

        def matches(row):
            value = pick(row, path)
            return value is not None and pattern.search(value if isinstance(value, str) else str(value)) is not None

        return matches
    if callable(wanted) and not isinstance(wanted, type):
        return lambda row: bool(wanted(pick(row, path)))
    if isinstance(wanted, (set, frozenset, list, tuple)):
        return lambda row: any(one == pick(row, path) for one in wanted)
    return lambda row: pick(row, path) == wanted


def is_nothing(value):
    """None, NaN, NaT: what comes last in every order."""
    if value is None:
        return True
    try:
        return bool(value != value)
    except Exception:
        return False


def hashable(value):
    """The value itself where it can be a key, else something that is equal where it is equal."""
    try:
        hash(value)
        return value
    except TypeError:
        pass
    try:
        return json.dumps(value, sort_keys=True, default=repr)
    except (TypeError, ValueError):
        return repr(value)


def order(values):
    """For values of any types: keys by which they can be sorted. Numbers, then dates, then texts, then others. Texts count as
    numbers, or as dates, where all of them are."""
    texts = [value for value in values if isinstance(value, str)]
    read = _first_that_reads(texts)
    return [_key(value, read) for value in values]


def _first_that_reads(texts):
    for read in (_as_number, _as_date):
        if texts and all(read(text) is not None for text in texts):
            return read
    return None


def _key(value, read):
    if isinstance(value, str):
        return read(value) if read is not None else (2, value)
    if isinstance(value, (tuple, list)):
        return (3, tuple(_key(one, None) if not is_nothing(one) else (9,) for one in value))
    return _number(value) or _date(value) or (4, type(value).__name__, repr(value))


def _number(value):
    try:
        if isinstance(value, (datetime.timedelta, datetime.date)) or isinstance(value, complex):
            return None
        number = value if isinstance(value, (int, float)) else float(value)
        return (0, number)
    except (TypeError, ValueError, OverflowError):
        return None


def _date(value):
    if isinstance(value, datetime.timedelta):
        return (0, value.total_seconds())
    if isinstance(value, datetime.datetime):
        # Without a zone it counts as UTC, so that both kinds can stand in one column.
        aware = value if value.tzinfo is not None else value.replace(tzinfo=datetime.timezone.utc)
        return (1, (aware - _EPOCH).total_seconds())
    if isinstance(value, datetime.date):
        return _date(datetime.datetime(value.year, value.month, value.day))
    return None


_EPOCH = datetime.datetime(1970, 1, 1, tzinfo=datetime.timezone.utc)


def _as_number(text):
    try:
        number = float(text)
    except ValueError:
        return None
    if math.isnan(number):
        return None
    plain = text.strip()
    return (0, int(plain)) if plain.lstrip("+-").isdigit() and len(plain) < 1000 else (0, number)


def _as_date(text):
    try:
        return _date(datetime.datetime.fromisoformat(re.sub(r"[zZ]$", "+00:00", text.strip())))
    except ValueError:
        return None
