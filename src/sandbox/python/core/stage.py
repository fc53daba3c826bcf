"""The way of what a run shows besides its text: frames of a line of JSON and the bytes of an image or a text, which go to the warden;
src/sandbox/shown.ts is the other end."""

import threading
import time

from . import markup, pictures

IMAGES_MOST = 8  # the worker holds it as well: here it saves drawing what nobody would see
TEXT_CHARS = 20_000  # of one text
_COARSE = 5  # CLOCK_REALTIME_COARSE, by which file systems tell the time


class Stage:
    """Of one run. begun: what is in the workspace with an earlier ctime is as it was before (inputs.py sees to that). known: digests of
    the files that hold what was shown."""

    def __init__(self, reports, work):
        self.work = work
        self.begun = time.clock_gettime_ns(_COARSE)
        self.known = set()
        self._reports = reports
        self._images = 0
        self._seen = set()
        self._names = {}

    def name(self, what):
        """The next name of its kind: "image 2"."""
        self._names[what] = self._names.get(what, 0) + 1
        return f"{what} {self._names[what]}"

    def image(self, name, data, saved=()):
        """data: PNG or JPEG. saved: digests of files that hold the same picture, see own_files.py."""
        if not self.has_room(name):
            return
        data, remark = pictures.fitted(data)
        if remark:
            self.left_out(name, remark)
        if data not in self._seen:
            self._seen.add(data)
            self._images += 1
        self.known.update(saved)
        self._reports.shown({"kind": "image", "name": name, "saved": list(saved)[-16:]}, data)

    def has_room(self, name):
        """Whether one more image is shown; says that this one is not where it isn't."""
        if self.is_full:
            self.left_out(name, f"beyond the {IMAGES_MOST} images that are shown")
        return not self.is_full

    @property
    def is_full(self):
        return self._images >= IMAGES_MOST

    def saved(self, name, digest):
        """An image that was shown has been saved to a file as well, unchanged."""
        self.known.add(digest)
        self._reports.shown({"kind": "saved", "name": name, "saved": [digest]})

    def text(self, name, text):
        self._reports.shown({"kind": "text", "name": name}, _encoded(markup.cut(text, TEXT_CHARS)))

    def value(self, text):
        self._reports.shown({"kind": "value", "name": "value"}, _encoded(markup.cut(text, TEXT_CHARS)))

    def left_out(self, name, reason):
        """reason: the rest of a sentence that begins with the name."""
        self._reports.shown({"kind": "left_out", "name": name, "reason": reason})

    def failed(self, name, error, how="could not be shown"):
        self.left_out(name, f"{how}: {described(error)}")


def _encoded(text):
    return text.encode("utf-8", "backslashreplace")


def described(error):
    """Kind and message of an error of the code's, whose methods may fail as well."""
    kind = type(error).__name__
    try:
        return f"{kind}: {error}"
    except Exception:
        return kind


_current = None
lock = threading.RLock()  # what one call shows stays together


def begin(reports, work):
    """reports: the run's Reporter. work: the path of the workspace."""
    global _current
    _current = Stage(reports, work)


def current():
    """The Stage of this run; None before there is one."""
    return _current
