"""Patches over several files, in the format that begins with "*** Begin Patch":

    *** Begin Patch
    *** Update File: path
    @@ a line above, to find the place @@
     context
    -removed
    +added
    *** Add File: path
    +line
    *** Delete File: path
    *** Move File: path -> new path
    *** End Patch

It is applied whole or not at all.
"""

import os
import re

from . import places, staging
from .files import line_end, read_text
from .places import Failure

_BEGIN = re.compile(r"\*\*\*\s*Begin\s+Patch\s*$")
_END = re.compile(r"\*\*\*\s*End\s+(Patch|of\s+File)\s*$")
_FILE = re.compile(r"\*\*\*\s*(Update|Add|Delete|Move)\s+File:\s*(.+?)\s*$")
_MOVE_TO = re.compile(r"\*\*\*\s*Move\s+to:\s*(.+?)\s*$")
_ANCHOR = re.compile(r"@@\s?(?:-[\d,]+ \+[\d,]+ @@)?(.*?)\s*(?:@@\s*)?$")  # line numbers, as diff writes them, are passed over


class _Part:
    """What is done with one file. hunks: of (anchor, [(sign, text)])."""

    def __init__(self, what, path):
        self.what = what
        self.path, _, target = (piece.strip() for piece in path.partition("->")) if what == "Move" else (path, "", "")
        self.target = target
        self.hunks = []

    def add(self, sign, text):
        if not self.hunks:
            self.hunks.append(("", []))
        self.hunks[-1][1].append((sign, text))


def parse(text):
    """The parts. Raises Failure with the line that is not understood."""
    parts = []
    lines = text.split("\n")
    starts = [number for number, line in enumerate(lines) if _BEGIN.match(line)]
    first = starts[0] + 1 if starts else 0
    for number, line in enumerate(lines[first:], first + 1):
        line = line.removesuffix("\r")
        ended, header, moved = _END.match(line), _FILE.match(line), _MOVE_TO.match(line)
        if ended:
            if ended[1] == "Patch":
                break
        elif header:
            parts.append(_Part(header[1], header[2]))
        elif moved and parts:
            parts[-1].target = moved[1]
        elif not parts:
            if line.strip():
                raise Failure(f"line {number} of the patch comes before any *** Update File: {line[:80]!r}")
        elif line.startswith("@@"):
            parts[-1].hunks.append((_ANCHOR.match(line)[1], []))
        elif line[:1] in ("+", "-", " "):
            parts[-1].add(line[0], line[1:])
        elif line and line[0] != "\\":
            parts[-1].add(" ", line)  # a context line whose leading blank was lost
        elif not line and parts[-1].what == "Update" and number < len(lines) and parts[-1].hunks:
            parts[-1].add(" ", "")
    if not parts:
        raise Failure("the patch has no part: *** Update File: path, *** Add File:, *** Delete File: or *** Move File: a -> b")
    return parts


def apply(text, diff):
    """Checks all, then writes. diff: of (name, old text or None, new text or None)."""
    before, after, modes, faults = {}, {}, {}, []
    for part in parse(text):
        try:
            _plan(part, before, after, modes)
        except places.errors.ToolError as error:
            faults.append(f"  {part.what} {part.path}: {error}")
    faults += [f"  {places.shown(real)}: {places.shown(file)} is to be a file, not a folder" for real, file in _below(after)]
    if faults:
        raise Failure("\n".join(["no file was changed, since the patch does not fit:", *faults]), details={"success": False})
    changed = {real: after[real] for real in after if after[real] != before[real]}
    if not changed:
        raise Failure("the patch changes nothing", details={"success": False})
    result = {"success": True, "status": "ok", "diff": "", "files_modified": [], "files_created": [], "files_deleted": []}
    for real, new in changed.items():
        name, old = places.shown(real), before[real]
        result["diff"] += diff(name, old, new)
        result["files_created" if old is None else "files_deleted" if new is None else "files_modified"].append(name)
    staging.put({real: (None if new is None else new.encode(), modes.get(real)) for real, new in changed.items()})
    return result


def _below(after):
    """(file, file above it), where both are there afterwards."""
    for real, new in after.items():
        above = os.path.dirname(real) if new is not None else "/"
        while above != "/":
            if after.get(above) is not None:
                yield real, above
            above = os.path.dirname(above)


def _plan(part, before, after, modes):
    """modes: the files whose mode a file gets, as in staging.put."""
    real = places.resolve(part.path)
    if part.what == "Add":
        _take_place(real, before, after)
        after[real] = "".join(f"{text}\n" for _, lines in part.hunks for sign, text in lines if sign != "-")
        return
    old = _current(part.path, real, before, after, modes)
    if part.what == "Delete":
        after[real] = None
        return
    new = _with_hunks(old, part.hunks)
    if part.what == "Update" and not any(lines for _, lines in part.hunks) and not part.target:
        raise Failure("there are no lines to change")
    if part.what == "Move" and not part.target:
        raise Failure('it says not where to: "*** Move File: old path -> new path"')
    if part.target:
        target = places.resolve(part.target)
        _take_place(target, before, after)
        after[real], after[target], modes[target] = None, new, modes.get(real)
    else:
        after[real] = new


def _current(path, real, before, after, modes):
    if real not in after:
        before[real] = after[real] = read_text(path)[1]
        modes[real] = real
    if after[real] is None:
        raise Failure("the patch has removed it before")
    return after[real]


def _take_place(real, before, after):
    if after.get(real) is not None or real not in after and os.path.lexists(real):
        raise Failure(f"{places.shown(real)} exists already: use *** Update File")
    before.setdefault(real, None)


def _with_hunks(text, hunks):
    ending = line_end(text)
    lines = text.split(ending)
    position = 0
    for anchor, changes in hunks:
        old = [line for sign, line in changes if sign != "+"]
        start = _after_anchor(lines, anchor, position)
        if not old:
            # Nothing but additions: after the anchor, or at the end of the file.
            at = start if anchor else len(lines) - (lines[-1] == "")
        else:
            at = _place(lines, old, start)
            while at is None and old and old[-1] == "" and changes[-1] == (" ", ""):
                old, changes = old[:-1], changes[:-1]  # an empty line before the next part
                at = _place(lines, old, start) if old else start
        if at is None:
            shown = "\n".join(f"    {line}" for line in old[:5])
            raise Failure(f"these lines are not in it, in this order{f', after {anchor!r}' if anchor else ''}:\n{shown}")
        there = iter(lines[at : at + len(old)])  # what stays is as it is in the file, white space at line ends included
        rows = [(sign, line if sign == "+" else next(there)) for sign, line in changes]
        new = [line for sign, line in rows if sign != "-"]
        lines[at : at + len(old)] = new
        position = at + len(new)
    return ending.join(lines)


def _after_anchor(lines, anchor, position):
    if not anchor:
        return position
    for fits in (lambda line: line.strip() == anchor.strip(), lambda line: anchor.strip() in line):
        for start in (position, 0):
            for index in range(start, len(lines)):
                if fits(lines[index]):
                    return index + 1
    raise Failure(f"the line {anchor!r} is not in it")


def _place(lines, old, start):
    """Where `old` is: exactly, else but for white space at line ends. After `start` first; before it only when it is there once.
    The anchor itself may be among the lines."""
    begin = max(0, start - 1)
    for same in (lambda line: line, str.rstrip):
        wanted = [same(line) for line in old]
        have = [same(line) for line in lines]
        starts = [at for at in range(len(have) - len(wanted) + 1) if have[at] == wanted[0]]
        found = [at for at in starts if have[at : at + len(wanted)] == wanted]
        later = [at for at in found if at >= begin]
        if later:
            if start == 0 and len(later) > 1:
                where = ", ".join(str(at + 1) for at in later[:10])
                words = f"these lines are {len(later)} times in it (at {where})"
                raise Failure(f"{words}: add lines around them, or an @@ line above")
            return later[0]
        if len(found) == 1:
            return found[0]
    return None
