"""Where the tools for files may go: the workspace. It is the run's own, so this is about clear errors and not a border."""

import difflib
import os
import stat

from . import errors

_MOST_NAMES = 250  # that are compared with one that is missing: all of a large folder would take seconds
_work = None
_getcwd, _realpath = os.getcwd, os.path.realpath


def settle(work):
    global _work
    _work = work


class Failure(errors.ToolError):
    """A tool that runs here says no."""


Failure.__name__ = Failure.__qualname__ = "ToolError"
Failure.__module__ = "tools"


def root():
    return _realpath(_work)


def base():
    """What relative paths are relative to: the current folder, as for open(), while that is in the workspace."""
    top = root()
    try:
        here = _realpath(_getcwd())
    except OSError:
        return top
    return here if is_within(here, top) else top


def is_within(path, top):
    return path == top or path.startswith(f"{top.rstrip('/')}/")


def resolve(path, what="path"):
    """The real absolute path. Raises Failure where it is not in the workspace."""
    if isinstance(path, os.PathLike):
        path = os.fspath(path)
    if not isinstance(path, str) or not path:
        raise Failure(f"{what} must be text that is not empty, not {path!r}")
    if "\0" in path:
        raise Failure(f"{what} has a null character")
    top = root()
    given = os.path.normpath(os.path.join(base(), path))
    try:
        real = _realpath(given)
    except OSError as error:
        raise Failure(f"{path}: {error.strerror}") from None
    if is_within(real, top):
        return real
    if is_within(given, top) or is_within(_realpath(os.path.dirname(given)), top):
        raise Failure(f"{path} is, or goes through, a link that leads out of the workspace, to {real}")
    raise Failure(f"{path} is outside of the workspace {top}, in which these tools work; elsewhere use open()")


def shown(real):
    """A path as results have it: relative to where relative paths begin, if it is below that."""
    start = base()
    return os.path.relpath(real, start) if is_within(real, start) else real


def regular_file(path, what="path"):
    """(real path, its status) of a file that can be read. Raises Failure with words on what is there instead."""
    real = resolve(path, what)
    try:
        status = os.stat(real)
    except (FileNotFoundError, NotADirectoryError):
        similar = _similar(real)
        hint = f"; did you mean {' or '.join(similar)}?" if similar else ""
        raise Failure(f"File not found: {path}{hint}", details={"similar_files": similar} if similar else None) from None
    except OSError as error:
        raise Failure(f"{path}: {error.strerror}") from None
    if stat.S_ISDIR(status.st_mode):
        raise Failure(f'{path} is a folder; search("*", target="files", path={path!r}) lists its files')
    if not stat.S_ISREG(status.st_mode):
        raise Failure(f"{path} is not a regular file but a pipe, socket or device")
    return real, status


def _similar(real):
    folder, name = os.path.split(real)
    try:
        names = os.listdir(folder)
    except OSError:
        return []
    likely = sorted(names, key=lambda one: (-len(os.path.commonprefix([_stem(one), _stem(name)])), one))
    by_stem = {}
    for one in likely[:_MOST_NAMES]:
        by_stem.setdefault(_stem(one), []).append(one)
    near = difflib.get_close_matches(_stem(name), by_stem, n=3, cutoff=0.6)
    return [shown(os.path.join(folder, one)) for stem in near for one in by_stem[stem]][:3]


def _stem(name):
    return name.lower().lstrip(".").partition(".")[0]


def size_in_words(size):
    for unit, factor in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= factor:
            return f"{size / factor:.1f} {unit}"
    return f"{size} bytes"


def whole_number(value, what, least):
    """value as an int of at least `least`. Raises Failure."""
    try:
        number = int(value)
    except (TypeError, ValueError):
        raise Failure(f"{what} must be a whole number, not {value!r}") from None
    return max(least, number)
