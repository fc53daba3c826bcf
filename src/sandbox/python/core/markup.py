"""HTML as text, and texts of bounded length."""

import re

HTML_CHARS = 500_000  # of one page: more is a program or its data, and no text
ROWS = 60  # of one table
COLUMNS = 20
_SKIPPED = frozenset(("script", "style", "head", "template", "noscript", "svg", "canvas"))
_VOID = frozenset("area base br col embed hr img input link meta source track wbr".split())  # they have no end tag
_HIDDEN = re.compile(r"\bdisplay\s*:\s*none\b", re.IGNORECASE)
_BLOCKS = frozenset(
    "address article aside blockquote dd details div dl dt fieldset figcaption figure footer form h1 h2 h3 h4 h5 h6 header hr li main "
    "nav ol p pre section summary table ul".split()
)
_MARKS = {"h1": "# ", "h2": "## ", "h3": "### ", "h4": "#### ", "h5": "##### ", "h6": "###### ", "li": "- "}


def cut(text, most):
    """A text of at most about `most` characters: whole lines of its beginning and its end, where they are not longer than that."""
    if len(text) <= most:
        return text
    head, tail = text[: most * 2 // 5], text[len(text) - most * 3 // 5 :]
    if "\n" in head:
        head = head[: head.rindex("\n")]
    if "\n" in tail:
        tail = tail[tail.index("\n") + 1 :]
    return f"{head}\n[… {len(text) - len(head) - len(tail)} characters left out …]\n{tail}"


def middle_cut(items, most, mark):
    """The first and the last of a list, with mark(how many are missing) between them."""
    if len(items) <= most:
        return items
    first = (most + 1) // 2
    missing = len(items) - most
    return [*items[:first], mark(missing), *items[len(items) - (most - first) :]]


def to_text(html, plain=None):
    """The text of HTML, with a line for each row of a table; None where there is none, or where it is too large.

    plain: what its object is in plain text, which says it better than HTML that is no table.
    """
    if len(html) > HTML_CHARS:
        return None
    reader = _reader()
    reader.feed(html)
    reader.close()
    if plain and not reader.has_tables:
        return plain
    lines = [line.rstrip() for line in "".join(reader.pieces).split("\n")]
    text = "\n".join(line for n, line in enumerate(lines) if line or (n > 0 and lines[n - 1])).strip("\n")
    return text or None


def _reader():
    from html.parser import HTMLParser  # needed by few: it would be in each zygote

    class Reader(HTMLParser):
        def __init__(self):
            super().__init__(convert_charrefs=True)
            self.pieces = []
            self.has_tables = False
            self._skipped = []  # the element that is not shown, and those in it of which the end might be taken for its own
            self._tables = []  # of each open one its rows, which are lists of cells
            self._pre = 0

        def _write(self, text):
            if self._tables and self._tables[-1]["cell"] is not None:
                self._tables[-1]["cell"].append(text)
            elif not self._tables:
                self.pieces.append(text)

        def handle_starttag(self, tag, attrs):
            if self._skipped:
                if tag in _SKIPPED or tag == self._skipped[0]:
                    self._skipped.append(tag)
                return
            if tag in _SKIPPED or _is_hidden(attrs):
                if tag not in _VOID:
                    self._skipped.append(tag)
                return
            if tag == "table":
                self.has_tables = True
                self._tables.append({"rows": [], "cell": None})
            elif self._tables and tag == "tr":
                self._end_cell()
                self._tables[-1]["rows"].append([])
            elif self._tables and tag in ("td", "th"):
                self._end_cell()
                self._tables[-1]["cell"] = []
                self._tables[-1]["span"] = next((value for name, value in attrs if name == "colspan"), None)
            elif tag == "br":
                self._write("\n")
            elif tag == "img":
                alt = next((value for name, value in attrs if name == "alt" and value), "image")
                self._write(f"[{alt}]")
            elif tag in _BLOCKS:
                self._write("\n" + _MARKS.get(tag, ""))
                self._pre += tag == "pre"

        def handle_endtag(self, tag):
            if self._skipped:
                if tag == self._skipped[-1]:
                    self._skipped.pop()
                return
            if tag == "table" and self._tables:
                self._end_cell()
                self._write_table(self._tables.pop()["rows"])
            elif tag in ("td", "th", "tr"):
                self._end_cell()
            elif tag in _BLOCKS:
                self._write("\n")
                self._pre -= tag == "pre" and self._pre > 0

        def handle_data(self, data):
            if not self._skipped:
                self._write(data if self._pre else _collapsed(data))

        def close(self):
            super().close()
            while self._tables:
                self._end_cell()
                self._write_table(self._tables.pop()["rows"])

        def _end_cell(self):
            table = self._tables[-1] if self._tables else None
            if table is not None and table["cell"] is not None:
                if not table["rows"]:
                    table["rows"].append([])
                span = table.get("span") or ""
                more = min(int(span), COLUMNS) - 1 if span.isdecimal() and len(span) < 5 else 0
                table["rows"][-1] += [" ".join("".join(table["cell"]).split()), *[""] * more]
                table["cell"] = None

        def _write_table(self, rows):
            self._write("\n" + aligned([row for row in rows if row]) + "\n")

    return Reader()


def _is_hidden(attrs):
    return any(name == "hidden" or name == "style" and value and _HIDDEN.search(value) for name, value in attrs)


def _collapsed(text):
    words = " ".join(text.split())
    return (" " if text[:1].isspace() else "") + words + (" " if words and text[-1:].isspace() else "")


def aligned(rows):
    """Rows of cells as aligned text, cut in the middle both ways."""
    rows = middle_cut(rows, ROWS, lambda missing: [f"… {missing} rows …"])
    rows = [middle_cut(row, COLUMNS, lambda missing: f"… {missing} more …") for row in rows]
    widths = []
    for row in rows:
        for n, cell in enumerate(row):
            if n == len(widths):
                widths.append(0)
            widths[n] = max(widths[n], min(len(cell), 40))
    return "\n".join(" | ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in rows)
