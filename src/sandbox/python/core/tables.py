"""DataFrames, Series and arrays as compact text: shape and kinds of the columns, first and last rows, columns cut in the middle."""

import sys

from . import markup

ROWS = 20
COLUMNS = 12
CELL_CHARS = 60
CHARS = 12_000  # of all of it, beyond which there are fewer rows, then fewer columns
_MOST = 500  # rows and columns, for code that asks for all of them
_MOST_CELL_CHARS = 5_000
_ARRAY_SHOWN_WHOLE = 100


def _kind(one):
    pandas = sys.modules.get("pandas")
    frame, series = getattr(pandas, "DataFrame", None), getattr(pandas, "Series", None)
    if isinstance(frame, type) and isinstance(one, frame):
        return "frame"
    if isinstance(series, type) and isinstance(one, series):
        return "series"
    array = getattr(sys.modules.get("numpy"), "ndarray", None)
    # Small ones are best shown by their repr, and those of other classes (masked, matrix) know themselves how.
    if type(one) is array and (one.size > _ARRAY_SHOWN_WHOLE or one.ndim > 2):
        return "array"
    return None


def is_table(one):
    return _kind(one) is not None


def text(one):
    """Raises what the objects in it raise."""
    kind = _kind(one)
    if kind == "frame":
        return _frame(one)
    if kind == "series":
        return _series(one)
    return _array(one)


def _option(name, default, own, most=_MOST):
    """How much the code wants to see: as we think best, unless it has said otherwise."""
    value = sys.modules["pandas"].get_option(f"display.{name}")
    if value == default or value == 0:
        return own
    return most if value is None else min(int(value), most)


def _cell_chars():
    return _option("max_colwidth", 50, CELL_CHARS, _MOST_CELL_CHARS)


def _counted(number, what):
    return f"{number} {what}{'' if number == 1 else 's'}"


def _frame(frame):
    rows, columns = frame.shape
    head = f"{type(frame).__name__}: {_counted(rows, 'row')} x {_counted(columns, 'column')}"
    if columns:
        head += f"\ndtypes: {_dtypes(frame)}"
    if not rows or not columns:
        return f"{head}\nindex: {_short(repr(frame.index), 300)}" if rows else head
    for most_rows, most_columns, width in _sizes(_option("max_rows", 60, ROWS), _option("max_columns", 20, COLUMNS), _cell_chars()):
        body = frame.to_string(max_rows=most_rows, max_cols=most_columns, max_colwidth=width, show_dimensions=False)
        if len(body) <= CHARS:
            break
    return f"{head}\n{body}"


def _sizes(rows, columns, width):
    """What is tried, until it is short enough: (rows, columns, characters of a cell)."""
    yield rows, columns, width
    for narrower in (500, CELL_CHARS):
        if narrower < width:
            yield rows, columns, narrower
    width = min(width, CELL_CHARS)
    for fewer in (20, 10, 6):
        if fewer < rows:
            yield fewer, columns, width
    for fewer in (12, 6, 2):
        if fewer < columns:
            yield min(rows, 6), fewer, width


def _dtypes(frame):
    names = [f"{_short(str(name), CELL_CHARS)} {dtype}" for name, dtype in _ends(frame.dtypes)]
    missing = frame.shape[1] - len(names)
    if not missing:
        return ", ".join(names)
    counts = {}
    dtypes = list(frame.dtypes)
    words = {id(dtype): dtype for dtype in dtypes}  # few, whatever the number of columns; to make words of one is slow
    words = {key: str(dtype) for key, dtype in words.items()}
    for dtype in dtypes:
        word = words[id(dtype)]
        counts[word] = counts.get(word, 0) + 1
    kinds = ", ".join(f"{kind} ({count})" for kind, count in list(counts.items())[:COLUMNS])
    half = COLUMNS // 2
    return f"{', '.join(names[:half])}, … {missing} more …, {', '.join(names[half:])}; of all: {kinds}"


def _ends(dtypes):
    """(name, dtype) of the first and the last columns."""
    if len(dtypes) <= COLUMNS:
        return list(dtypes.items())
    half = COLUMNS // 2
    return [*dtypes.iloc[:half].items(), *dtypes.iloc[-half:].items()]


def _short(text, most):
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _series(series):
    name = "" if series.name is None else f" {_short(repr(series.name), CELL_CHARS)}"
    head = f"{type(series).__name__}{name}: {_counted(len(series), 'value')}, {series.dtype}"
    if not len(series):
        return head
    for rows, _, width in _sizes(_option("max_rows", 60, ROWS), 0, _cell_chars()):
        with sys.modules["pandas"].option_context("display.max_colwidth", width):
            body = series.to_string(max_rows=rows)
        if len(body) <= CHARS:
            break
    return f"{head}\n{body}"


def _array(array):
    numpy = sys.modules["numpy"]
    head = f"ndarray: shape {array.shape}, {array.dtype}"
    if array.size and array.dtype.kind in "iuf":
        with numpy.errstate(all="ignore"):
            least, most = array.min(), array.max()
            missing = numpy.count_nonzero(numpy.isnan(array)) if least != least else 0
            if missing:
                least, most = numpy.fmin.reduce(array, axis=None), numpy.fmax.reduce(array, axis=None)
        head += ", all nan" if missing == array.size else f", from {least} to {most}"
        if 0 < missing < array.size:
            head += f" and {missing} nan"
    body = numpy.array2string(array, threshold=_ARRAY_SHOWN_WHOLE, edgeitems=3)
    if len(body) > CHARS:
        body = markup.cut(numpy.array2string(array, threshold=1, edgeitems=1), CHARS)
    return f"{head}\n{body}"
