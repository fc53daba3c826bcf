"""Files that the code has made, as the run itself looks at them: for its convenience only, since what it says of them is the code's word.
What is shown of them in the end the worker decides."""

import os
import stat
import sys
import time
import warnings

from . import pictures

MOST_BYTES = 16 << 20  # the worker takes none that is larger
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
_IMAGES = (".png", ".jpg", ".jpeg")
_MOST_ENTRIES = 2_000
_MOST_IMAGES = 16
_MOST_PIXELS = 16_000_000  # to make one smaller takes about 8 bytes for each
_FITTING_S = 1.0  # after which none is begun: it is part of the run's time


def read(path):
    """The bytes of a file, or None: of what is no file, a link, or too large. Raises OSError."""
    with open(os.open(path, _FILE), "rb") as file:
        status = os.fstat(file.fileno())
        return file.read(MOST_BYTES) if stat.S_ISREG(status.st_mode) and status.st_size <= MOST_BYTES else None


def digest(data):
    """By which the worker knows a file again, whatever it is called by then."""
    import hashlib  # which libraries for images have imported

    return hashlib.sha256(data).hexdigest()


def show_large(to):
    """Shows images of the run that are larger than what models take, smaller; the worker then knows the files as shown.

    What can't be made smaller is left to the worker, which says why it is not shown. Without Pillow nothing is done.
    """
    if "PIL.Image" not in sys.modules:
        return
    end = time.monotonic() + _FITTING_S
    for path in sorted(_images(to))[:_MOST_IMAGES]:
        if to.is_full or time.monotonic() > end:
            return
        try:
            _show_smaller(to, path)
        except Exception:
            pass


def _images(to):
    """Paths of images below the workspace that the run has made or changed."""
    seen = 0
    for folder, folders, names in os.walk(to.work):
        seen += len(folders) + len(names)
        if seen > _MOST_ENTRIES:
            return
        for name in names:
            path = os.path.join(folder, name)
            if name.lower().endswith(_IMAGES):
                status = os.lstat(path)
                if status.st_nlink == 1 and status.st_ctime_ns >= to.begun:
                    yield path


def _show_smaller(to, path):
    data = read(path)
    if data is None or not pictures.is_known(data):
        return
    saved = digest(data)
    if saved in to.known:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pillow's, of what is odd in a file
        smaller, remark = pictures.fitted(data, _MOST_PIXELS)
    if smaller is data:
        return
    name = os.fsencode(path[len(to.work) + 1 :]).decode("utf-8", "backslashreplace")  # as the worker has it
    if remark:
        to.left_out(name, remark)
    to.image(name, smaller, [saved])
