"""files.patch, as it runs in the sandbox: a text of a file replaced by another, or a patch over several files."""

import difflib
import re

from . import places, staging, v4a
from .files import line_end, read_text
from .places import Failure

_NEAR = 3
_LONGEST_SEARCH = 4000  # lines of a file in which a near line is looked for
_LARGEST_DIFF = 512 << 10


def patch(path=None, old_string=None, new_string=None, replace_all=False, mode="replace", patch=None):
    if mode == "patch":
        if not isinstance(patch, str) or not patch.strip():
            raise Failure('mode="patch" needs patch, a text that begins with *** Begin Patch')
        return v4a.apply(patch, diff)
    if mode != "replace":
        raise Failure(f'mode must be "replace" or "patch", not {mode!r}')
    for name, value in (("path", path), ("old_string", old_string), ("new_string", new_string)):
        if not isinstance(value, str):
            raise Failure(f"{name} must be text, not {value!r}")
    if not old_string:
        raise Failure("old_string is empty: write_file makes a file, and a patch needs the text that is to be replaced")
    if old_string == new_string:
        raise Failure("old_string and new_string are the same: there is nothing to change")
    real, text = read_text(path)
    new_text, count = replace(text, old_string, new_string, replace_all, path)
    staging.put({real: (new_text.encode(), real)})
    name = places.shown(real)
    return {
        "success": True,
        "status": "ok",
        "diff": diff(name, text, new_text),
        "files_modified": [name],
        "replacements": count,
    }


def replace(text, old, new, everywhere, path):
    """(the new text, how many times). Raises Failure where `old` is not there exactly once, with what is there instead."""
    if line_end(text) == "\r\n" or old not in text and "\r\n" in text:
        old, new = (re.sub("\r?\n", "\r\n", one) for one in (old, new))
    if old == new:
        raise Failure(f"the lines of {path} end in CRLF, and those of new_string are made to: there is nothing to change")
    count = text.count(old)
    if count == 0:
        raise Failure(f"old_string is not in {path}{_nearest(text, old)}", details={"success": False})
    if count > 1 and not everywhere:
        lines = [text.count("\n", 0, found.start()) + 1 for found in re.finditer(re.escape(old), text)]
        where = ", ".join(map(str, lines[:10])) + (", …" if count > 10 else "")
        raise Failure(
            f"old_string is {count} times in {path} (lines {where}): add lines around it to make it unique, "
            "or pass replace_all=True",
            details={"success": False, "matches": count},
        )
    return text.replace(old, new), count


def _nearest(text, old):
    """Words on where something like it is."""
    lines = text.split("\n")
    wanted = [line.strip() for line in old.strip().split("\n")]
    stripped = [line.strip() for line in lines]
    for start in range(len(lines) - len(wanted) + 1):
        if stripped[start] == wanted[0] and stripped[start : start + len(wanted)] == wanted:
            shown = "\n".join(f"  {start + n + 1}| {lines[start + n]!r}" for n in range(min(len(wanted), _NEAR)))
            return f"; the lines at {start + 1} differ from it only in white space:\n{shown}"
    first = max(wanted, key=len) if wanted else ""
    matcher = difflib.SequenceMatcher(b=first, autojunk=False)
    scored = []
    for number, line in enumerate(stripped[:_LONGEST_SEARCH], 1):
        matcher.set_seq1(line[:500])
        if line and matcher.real_quick_ratio() > 0.5 and matcher.quick_ratio() > 0.5:
            scored.append((matcher.ratio(), -number))
    near = [(ratio, -number) for ratio, number in sorted(scored, reverse=True)[:_NEAR] if ratio > 0.5]
    if not near:
        return "; no line in it is like it: read the file again"
    shown = "\n".join(f"  {number}| {lines[number - 1][:200]}" for _, number in sorted(near, key=lambda item: item[1]))
    return f"; the nearest lines are:\n{shown}"


def diff(name, old, new):
    """Unified, with three lines around each change; old or new None: the file was made or removed."""
    before, after = (text.splitlines(keepends=True) if text is not None else [] for text in (old, new))
    if max(len(old or ""), len(new or "")) > _LARGEST_DIFF:
        return f"[{name} is too large to be compared: {len(before)} lines before, {len(after)} after]"
    left, right = "/dev/null" if old is None else f"a/{name}", "/dev/null" if new is None else f"b/{name}"
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"
        for line in difflib.unified_diff(before, after, left, right)
    )
