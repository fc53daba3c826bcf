"""Files written and removed together: all of them or, where one can't be, none."""

import errno
import itertools
import os
import stat

from . import places
from .places import Failure

_numbers = itertools.count()


def put(changes):
    """changes: {real path: (bytes, or None to remove it; the real path of the file whose mode it gets, or None)}. A file that is
    written alone is replaced in one step. Raises Failure, and then nothing is changed, or its message names what is lost."""
    undo, modes, staged = [], {}, {}
    written = [one for one, (data, _) in changes.items() if data is not None]
    try:
        for real in written:
            modes[real] = _mode(real, changes[real][1])
        for real in changes:
            if real not in modes:  # before the others: its name may become a folder's
                _set_aside(real, undo)
        for real in written:  # whatever a full disk refuses, it refuses here
            _make_folders(os.path.dirname(real), undo)
            staged[real] = _stage(real, changes[real][0], modes[real], undo)
        for real in written:
            if real != written[-1] and os.path.lexists(real):
                _set_aside(real, undo)
            os.replace(staged[real], real)
            undo.append((os.unlink, real))
    except BaseException as error:
        lost = _take_back(undo)
        if not isinstance(error, OSError):
            raise
        end = f"could not be put back: {', '.join(lost)}" if lost else "nothing was changed"
        words = f"{places.shown(real)} can't be written: {error.strerror}; {end}"
        raise Failure(words, details={"success": False}) from None
    for step, *paths in undo:
        if step is os.replace:
            os.unlink(paths[0])


def _mode(real, like):
    """None: it is a new file's."""
    if like is None:
        return None
    if like == real:
        os.close(os.open(real, os.O_WRONLY))  # what is read-only stays so, though its folder would let it be replaced
    return stat.S_IMODE(os.stat(like).st_mode)


def _beside(real):
    return os.path.join(os.path.dirname(real), f".tools-{os.getpid()}-{next(_numbers)}")


def _set_aside(real, undo):
    aside = _beside(real)
    os.rename(real, aside)
    undo.append((os.replace, aside, real))


def _make_folders(folder, undo):
    missing = []
    while not os.path.isdir(folder):
        missing.append(folder)
        folder = os.path.dirname(folder)
    for one in reversed(missing):
        try:
            os.mkdir(one)
            undo.append((os.rmdir, one))
        except FileExistsError:  # another thread was first, or it is no folder
            if not os.path.isdir(one):
                raise NotADirectoryError(errno.ENOTDIR, f"{places.shown(one)} is no folder") from None


def _stage(real, data, mode, undo):
    path = _beside(real)
    with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666 if mode is None else mode), "wb") as file:
        undo.append((os.unlink, path))
        if mode is not None and stat.S_IMODE(os.fstat(file.fileno()).st_mode) != mode:
            os.fchmod(file.fileno(), mode)  # the umask took something
        file.write(data)
    return path


def _take_back(undo):
    """The names of files that are not back."""
    lost = []
    for step, *paths in reversed(undo):
        try:
            step(*paths)
        except OSError:
            if step is os.replace:
                lost.append(places.shown(paths[1]))
    return lost
