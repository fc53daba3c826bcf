"""query(data): results of tools filtered, sorted and grouped in one line."""

import functools
from collections.abc import Iterable, Mapping

from .fields import as_number, getter, hashable, matcher, order, pick

_SHOWN = 3


def query(data, path=None):
    """The rows of data, to go through them in a chain:

        query(hits).filter(url=r"\\.org/", score=lambda s: s > 0.5).sort("score", reverse=True).map("title").first(3)

    data: a list of anything, a dict (its rows are {"key", "value"}), a generator, a DataFrame (its records). path: where in
    data they are, as in query(answer, "data.web"). Iteration, len(), indexing and list() work as with a list; nothing that is
    done to a query changes it or the data."""
    return Query(data, path)


class Query:
    """Rows, see query(). Fields are named by a name or by a path with dots ("address.city")."""

    __slots__ = ("_rows",)

    def __init__(self, data=(), path=None):
        self._rows = _rows_of(data if path is None else pick(data, path))

    def filter(self, *conditions, **fields):
        """The rows for which all hold. conditions: functions of a row, names of fields that must be true, or dicts of fields.
        fields: name=regular expression, value, list of values, or function of the value; a__b stands for a path."""
        tests = []
        for one in conditions:
            if isinstance(one, Mapping):
                tests += [matcher(name, wanted) for name, wanted in one.items()]
            else:
                tests.append(getter(one))
        tests += [matcher(name, wanted) for name, wanted in fields.items()]
        return Query([row for row in self._rows if all(test(row) for test in tests)])

    def map(self, *what):
        """map(fn) is fn of each row, map("a") that field of each, map("a", "b.c") dicts with these fields."""
        if len(what) == 1:
            return Query([getter(what[0])(row) for row in self._rows])
        return Query([{name: pick(row, name) for name in what} for row in self._rows])

    def flat(self, key=None):
        """One row for each element of the lists that key finds in the rows."""
        get = getter(key)
        return Query([inner for row in self._rows for inner in _rows_of(get(row))])

    def sort(self, key=None, reverse=False):
        """By a field, several fields or a function. Numbers before dates before texts; texts that all are numbers ("1e3",
        "1,234.5", "NaN") or ISO dates count as such; what has no value (None, NaN, blank text) comes last, reversed or not.
        Types may be mixed; True is 1; a date without a zone counts as UTC."""
        if isinstance(key, (list, tuple)) and key:
            sorted_by_all = self
            for one in reversed(key):
                sorted_by_all = sorted_by_all.sort(one, reverse)
            return sorted_by_all
        get = getter(key)
        keys = order([get(row) for row in self._rows])
        present = [index for index, key in enumerate(keys) if key is not None]
        absent = [index for index, key in enumerate(keys) if key is None]
        return Query([self._rows[index] for index in sorted(present, key=keys.__getitem__, reverse=reverse) + absent])

    def unique(self, key=None):
        """The first row of each value of key; all that is missing (None, NaN) is one value."""
        get = getter(key)
        found = {}
        for row in self._rows:
            found.setdefault(hashable(get(row)), row)
        return Query(list(found.values()))

    def group(self, key):
        """A dict from each value of key to a query of its rows, in the order in which they came; None: where it is missing."""
        get = getter(key)
        groups = {}
        for row in self._rows:
            groups.setdefault(hashable(get(row)), []).append(row)
        return Groups({value: Query(rows) for value, rows in groups.items()})

    def reduce(self, fn, *initial):
        """fn(so far, row) over all rows, from `initial` or the first row on."""
        return functools.reduce(fn, self._rows, *initial)

    def first(self, n=None):
        """The first row, or None; with n a query of the first n."""
        if n is None:
            return self._rows[0] if self._rows else None
        return Query(self._rows[: max(0, n)])

    def last(self, n=None):
        """The last row, or None; with n a query of the last n."""
        if n is None:
            return self._rows[-1] if self._rows else None
        return Query(self._rows[max(0, len(self._rows) - max(0, n)) :])

    def each(self, fn):
        """Calls fn with each row; the query itself, for the chain."""
        for row in self._rows:
            fn(row)
        return self

    def count(self, *conditions, **fields):
        """How many rows there are, or for how many all hold, as with filter()."""
        return len(self.filter(*conditions, **fields)._rows if conditions or fields else self._rows)

    def _present(self, key):
        """Where there is a value."""
        values = [*map(getter(key), self._rows)]
        return [value for value, place in zip(values, order(values), strict=True) if place is not None]

    def sum(self, key=None):
        """Of the values that there are, as in sort(); numbers written as text count, and other texts are a ValueError."""
        return sum(_number(value) for value in self._present(key))

    def mean(self, key=None):
        """The average of the values that there are, or None."""
        values = self._present(key)
        return sum(_number(value) for value in values) / len(values) if values else None

    def min(self, key=None):
        """The least value in the order of sort(), or None."""
        return Query(self._present(key)).sort().first()

    def max(self, key=None):
        """The greatest value in the order of sort(), or None."""
        return Query(self._present(key)).sort().last()

    def list(self):
        """The rows as a list."""
        return [*self._rows]

    def __iter__(self):
        return iter(self._rows)

    def __len__(self):
        return len(self._rows)

    def __getitem__(self, index):
        return Query(self._rows[index]) if isinstance(index, slice) else self._rows[index]

    def __contains__(self, row):
        return row in self._rows

    def __eq__(self, other):
        if isinstance(other, Query):
            return self._rows == other._rows
        return self._rows == other if isinstance(other, list) else NotImplemented

    __hash__ = None

    def __repr__(self):
        shown = [_line(row) for row in self._rows[:_SHOWN]]
        if len(self._rows) > _SHOWN:
            shown.append(f"… {len(self._rows) - _SHOWN} more")
        rows = "row" if len(self._rows) == 1 else "rows"
        return "\n  ".join([f"<query of {len(self._rows)} {rows}>", *shown])


class Groups(dict):
    """What group() makes: a dict of queries."""

    def count(self):
        """{value: number of rows}, the most first."""
        return dict(sorted(((value, len(rows)) for value, rows in self.items()), key=lambda item: -item[1]))

    def sum(self, key=None):
        """{value: sum of that field}."""
        return {value: rows.sum(key) for value, rows in self.items()}

    def map(self, fn):
        """{value: fn(query of its rows)}."""
        return {value: fn(rows) for value, rows in self.items()}


def _number(value):
    if not isinstance(value, str):
        return value
    number = as_number(value)
    if number is None:
        raise ValueError(f"{_line(value)} is no number")
    return number


def _line(row):
    text = repr(row)
    return text if len(text) <= 110 else f"{text[:109]}…"


def _rows_of(data):
    if data is None:
        return []
    if isinstance(data, Query):
        return data._rows
    if isinstance(data, Mapping):
        return [{"key": key, "value": value} for key, value in data.items()]
    if isinstance(data, (str, bytes, bytearray)):
        raise TypeError(f"query() takes rows; this is {type(data).__name__}: json_parse() or .splitlines() it first")
    if hasattr(data, "to_dict") and hasattr(data, "columns"):
        return data.to_dict("records")
    if isinstance(data, Iterable):
        return list(data)
    raise TypeError(f"query() takes a list, a dict or something else with rows; this is {type(data).__name__}")


for _one in (query, Query, Groups):
    _one.__module__ = "tools"
