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
    if hasattr(row, "keys"):  # sqlite3.Row
        try:
            return row[name]
        except (LookupError, TypeError):
            pass
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


def is_missing(value):
    """None, NaN, NaT, NA."""
    if value is None or type(value).__name__ == "NAType":
        return True
    try:
        return bool(value != value)
    except Exception:
        return False


def hashable(value):
    """The value itself where it can be a key, else something that is equal where it is equal; None for all that is missing."""
    if is_missing(value):
        return None
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
    """For values of any types: keys by which they can be sorted, or None for what is no value: what is missing, blank text and,
    among numbers, "NaN". Numbers, then dates, then texts, then others. Texts count as numbers, or as dates, where all of them
    are; in lists and tuples those at the same place."""
    texts = [value for value in values if isinstance(value, str) and value.strip()]
    read = _first_that_reads(texts)
    rows = iter(_keys_of_rows([value for value in values if isinstance(value, (tuple, list))]))
    return [next(rows) if isinstance(value, (tuple, list)) else _key(value, read) for value in values]


def _first_that_reads(texts):
    for read in (_as_number, _as_date):
        if texts and all(read(text) is not None for text in texts):
            return read
    return None


def _keys_of_rows(rows):
    width = max(map(len, rows), default=0)
    columns = [iter(order([row[n] for row in rows if len(row) > n])) for n in range(width)]
    return [(3, tuple(next(column) or (9,) for _, column in zip(row, columns))) for row in rows]


def _key(value, read):
    if isinstance(value, str):
        if not value.strip():
            return None
        key = (2, value) if read is None else read(value)
        return None if key is _NOT_A_NUMBER else key
    if is_missing(value):
        return None
    return _number(value) or _date(value) or (4, type(value).__name__, _Other(value))


class _Other:
    """Ordered as its type does it or, where that has no order, by what it looks like."""

    def __init__(self, value):
        self.value = value

    def __eq__(self, other):
        try:
            return bool(self.value == other.value)
        except Exception:
            return repr(self.value) == repr(other.value)

    def __lt__(self, other):
        try:
            return bool(self.value < other.value)
        except Exception:
            return repr(self.value) < repr(other.value)


def _number(value):
    try:
        if isinstance(value, (datetime.timedelta, datetime.date)) or isinstance(value, complex):
            return None
        if not isinstance(value, (int, float)):
            value = int(value) if hasattr(value, "__index__") else float(value)  # numpy's integers keep all their digits
        return (0, value)
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


_NOT_A_NUMBER = (0, math.nan)
_THOUSANDS = re.compile(r"[+-]?[0-9]{1,3}(,[0-9]{3})+(\.[0-9]*)?")


def as_number(text):
    """The number that a text is, or None: as Python writes it, with commas between thousands too; NaN is one."""
    key = _as_number(text)
    return None if key is None else key[1]


def _as_number(text):
    plain = text.strip()
    if _THOUSANDS.fullmatch(plain):
        plain = plain.replace(",", "")
    try:
        number = float(plain)
    except ValueError:
        return None
    if math.isnan(number):
        return _NOT_A_NUMBER
    return (0, int(plain)) if plain.lstrip("+-").isdigit() and len(plain) < 1000 else (0, number)


def _as_date(text):
    try:
        return _date(datetime.datetime.fromisoformat(re.sub(r"[zZ]$", "+00:00", text.strip())))
    except ValueError:
        return None
