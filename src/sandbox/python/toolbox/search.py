"""files.search, as it runs in the sandbox: lines that a regular expression finds, or files by name."""

import fnmatch
import os
import re
import stat
import time

from . import places
from .files import SAMPLE, is_binary
from .places import Failure

SECONDS = 20
LARGEST_FILE = 32 << 20
LONGEST_LINE = 2000
_LEFT_OUT = {".git", ".hg", ".svn", "__pycache__", "node_modules", ".venv", ".mypy_cache", ".pytest_cache"}
_TARGETS = {"content": "content", "grep": "content", "files": "files", "find": "files"}
_MODES = ("content", "files_only", "count")
_BRACES = re.compile(r"\{([^{}]*)\}")
_MOST_ALTERNATIVES = 100  # fnmatch keeps 256 compiled, and each may be two


def search(
    pattern,
    target="content",
    path=".",
    file_glob=None,
    limit=50,
    offset=0,
    output_mode="content",
    context=0,
    order="discovery",
):
    if target not in _TARGETS:
        raise Failure(f'target must be "content" or "files", not {target!r}')
    if output_mode not in _MODES:
        raise Failure(f"output_mode must be one of {', '.join(_MODES)}, not {output_mode!r}")
    if order not in ("discovery", "modified"):
        raise Failure(f'order must be "discovery" (by path) or "modified" (newest first), not {order!r}')
    if not isinstance(pattern, str) or not pattern:
        raise Failure("pattern must be text that is not empty")
    limit = places.whole_number(limit, "limit", 1)
    offset = places.whole_number(offset, "offset", 0)
    context = places.whole_number(context, "context", 0)
    real = places.resolve(path)
    if not os.path.exists(real):
        raise Failure(f"Path not found: {path}")
    found = _files(real, order)
    if _TARGETS[target] == "files":
        globs = _alternatives(pattern)
        named = [one for one in found if _has_name(one, globs, real)]
        return _page({"total_count": len(named)}, "files", [places.shown(one) for one in named], offset, limit, len(named))
    try:
        expression = re.compile(pattern)
    except re.error as error:
        raise Failure(f"pattern is no regular expression: {error}; re.escape() makes one of plain text") from None
    if file_glob:
        globs = _alternatives(file_glob)
        found = [one for one in found if _has_name(one, globs, real)]
    return _content(found, expression, limit, offset, output_mode, context)


def _files(real, order):
    """Regular files below, links not followed, by path or the newest first."""
    if not os.path.isdir(real):
        return [real]
    found = []
    for folder, folders, names in os.walk(real):
        folders[:] = sorted(name for name in folders if name not in _LEFT_OUT)
        for name in sorted(names):
            one = os.path.join(folder, name)
            try:
                status = os.lstat(one)
            except OSError:
                continue
            if stat.S_ISREG(status.st_mode):
                found.append((one, status.st_mtime_ns))
    if order == "modified":
        found.sort(key=lambda item: -item[1])
    return [one for one, _ in found]


def _has_name(real, globs, top):
    return any(_fits(real, glob, top) for glob in globs)


def _fits(real, pattern, top):
    """A glob for the name, or with a slash for the path below `top`. A plain word is looked for anywhere in the name."""
    name = os.path.basename(real)
    if "/" in pattern:
        below = os.path.relpath(real, top)
        plain = pattern.removeprefix("./")
        return fnmatch.fnmatch(below, plain) or "**/" in plain and fnmatch.fnmatch(below, plain.replace("**/", ""))
    if any(sign in pattern for sign in "*?["):
        return fnmatch.fnmatch(name, pattern)
    return pattern in name


def _alternatives(pattern):
    """*.{a,b} as *.a and *.b; braces may nest. Raises Failure where they stand for very many."""
    found, left = set(), [pattern]
    while left:
        one = left.pop()
        braces = _BRACES.search(one)
        if braces is None:
            found.add(one)
        else:
            left += [one[: braces.start()] + word + one[braces.end() :] for word in braces[1].split(",")]
        if len(found) + len(left) > _MOST_ALTERNATIVES:
            raise Failure(f"the braces of {pattern[:80]} stand for more than {_MOST_ALTERNATIVES} globs: give fewer alternatives")
    return found - {""}


def _content(files, expression, limit, offset, mode, context):
    ends = time.monotonic() + SECONDS
    matches, counts, total, skipped, in_time = [], {}, 0, 0, True
    for one in files:
        if time.monotonic() > ends:
            in_time = False
            break
        lines = _lines(one)
        if lines is None:
            skipped += 1
            continue
        shown = None
        for index, line in enumerate(lines):
            if expression.search(line) is None:
                continue
            shown = shown or places.shown(one)
            counts[shown] = counts.get(shown, 0) + 1
            total += 1
            if mode == "content" and offset < total <= offset + limit:
                matches.append(_match(shown, lines, index, context))
    result = {"total_count": total}
    if skipped:
        result["skipped_files"] = skipped
    if not in_time:
        result["warning"] = f"not all files were looked at: it took more than {SECONDS} s; narrow path or file_glob"
        result["total_count_is_lower_bound"] = True
    if mode == "content":
        return _page(result, "matches", matches, 0, limit, max(0, total - offset), offset)
    if mode == "files_only":
        return _page(result, "files", list(counts), offset, limit, len(counts))
    page = list(counts.items())[offset : offset + limit]
    result["counts"] = dict(page)
    if offset + limit < len(counts):
        result["truncated"] = True
        result["hint"] = f"go on with offset={offset + limit}"
    return result


def _page(result, name, rows, offset, limit, available, start=None):
    result[name] = rows[offset : offset + limit]
    begin = offset if start is None else start
    if available - offset > limit:
        result["truncated"] = True
        result["hint"] = f"go on with offset={begin + limit}"
    return result


def _lines(real):
    """The lines of a file with text, or None."""
    try:
        with open(real, "rb") as file:
            sample = file.read(SAMPLE)
            if is_binary(sample) or os.fstat(file.fileno()).st_size > LARGEST_FILE:
                return None
            text = (sample + file.read()).decode("utf-8", "replace")
    except OSError:
        return None
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    return [line.removesuffix("\r") for line in lines]


def _match(shown, lines, index, context):
    match = {"path": shown, "line": index + 1, "content": _cut(lines[index])}
    if context:
        match["before"] = [_cut(line) for line in lines[max(0, index - context) : index]]
        match["after"] = [_cut(line) for line in lines[index + 1 : index + 1 + context]]
    return match


def _cut(line):
    return line if len(line) <= LONGEST_LINE else f"{line[:LONGEST_LINE]}… [{len(line)} characters]"
