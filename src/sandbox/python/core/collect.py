"""What a run left in its workspace: listed, and the contents of what it made or changed handed to the worker.

Done when nothing of the code runs any more, and as if something still did: whatever lies there was made by the code. Each folder
and file is opened below a descriptor, by one name at a time, without following a link or waiting for anything, and what counts
is what the opened thing says of itself.
"""

import os
import stat
import time

LISTED = 200
MAX_DEPTH = 16
CHUNK = 256 << 10
GONE = "gone"
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC
_IMAGES = (".png", ".jpg", ".jpeg", ".gif", ".webp")


def state(status):
    """By what a file is known again. No clock stands still for whoever writes to it: see inputs.py."""
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


class Workspace:
    """Folders below one, walked and read until `deadline` (time.monotonic())."""

    def __init__(self, path, one_device, deadline):
        """one_device: whether a file has to be on the device of the top folder, as each folder has. On overlayfs one that is
        may seem to be on another."""
        self._top = os.open(path, _FOLDER)
        self._device = os.fstat(self._top).st_dev
        self._one_device = one_device
        self._deadline = deadline
        self.files = []  # (names on the way to it, path, status)
        self.other = {"links": 0, "hard_links": 0, "special": 0}
        self.partial = None  # why not all was looked into: depth, entries, time, or a folder that was unreadable

    def walk(self, most_entries):
        """Finds files. Those with a second name may be files of the machine's own; they, links and all that is no file are counted."""
        pending = [((), "")]
        seen = 0
        while pending:
            names, shown = pending.pop()
            try:
                folder = self._descend(names)
            except OSError:
                self.partial = self.partial or "unreadable"
                continue
            try:
                for entry in os.listdir(folder):
                    seen += 1
                    if seen > most_entries or time.monotonic() > self._deadline:
                        self.partial = "entries" if seen > most_entries else "time"
                        return
                    try:
                        status = os.stat(entry, dir_fd=folder, follow_symlinks=False)
                    except FileNotFoundError:
                        continue
                    path = shown + os.fsencode(entry).decode("utf-8", "backslashreplace")
                    if stat.S_ISDIR(status.st_mode):
                        if len(names) < MAX_DEPTH:
                            pending.append(((*names, entry), path + "/"))
                        else:
                            self.partial = self.partial or "depth"
                    elif not stat.S_ISREG(status.st_mode):
                        self.other["links" if stat.S_ISLNK(status.st_mode) else "special"] += 1
                    elif status.st_nlink != 1:
                        self.other["hard_links"] += 1
                    else:
                        self.files.append(((*names, entry), path, status))
            except OSError:
                self.partial = self.partial or "unreadable"
            finally:
                os.close(folder)

    def _descend(self, names):
        """A descriptor of a folder. Raises OSError, also for one on another device: something is mounted there."""
        fd = os.dup(self._top)
        for name in names:
            try:
                inner = os.open(name, _FOLDER, dir_fd=fd)
            finally:
                os.close(fd)
            fd = inner
            if os.fstat(fd).st_dev != self._device:
                os.close(fd)
                raise OSError("another device")
        return fd

    def read(self, names, status, hand_over):
        """Gives a file's bytes to hand_over(bytes), which says whether to go on. Returns why it has not all of them, or None.

        No more is read than was there in the beginning, however fast somebody writes.
        """
        try:
            fd = self._open(names)
        except OSError:
            return "unreadable"
        try:
            opened = os.fstat(fd)
            if not stat.S_ISREG(opened.st_mode) or opened.st_nlink != 1:
                return "changed"
            if self._one_device and opened.st_dev != self._device:
                return "unreadable"
            if state(opened) != state(status):
                return "changed"
            left = opened.st_size
            while left > 0:
                data = os.read(fd, min(left, CHUNK))
                if not data:
                    return "changed"
                left -= len(data)
                if time.monotonic() > self._deadline or not hand_over(data):
                    return "late"
            return None if state(os.fstat(fd)) == state(opened) else "changed"
        except OSError:
            return "unreadable"
        finally:
            os.close(fd)

    def _open(self, names):
        folder = self._descend(names[:-1])
        try:
            # Looked at first: to open a device may do something.
            if not stat.S_ISREG(os.stat(names[-1], dir_fd=folder, follow_symlinks=False).st_mode):
                raise OSError("no file")
            return os.open(names[-1], _FILE, dir_fd=folder)
        finally:
            os.close(folder)

    def state_of(self, path):
        """state() of what has this path now; GONE where nothing has it any more, None where that can't be found out."""
        names = path.split("/")
        try:
            folder = self._descend(names[:-1])
        except (FileNotFoundError, NotADirectoryError):
            return GONE
        except OSError:
            return None
        try:
            return state(os.stat(names[-1], dir_fd=folder, follow_symlinks=False))
        except FileNotFoundError:
            return GONE
        except OSError:
            return None
        finally:
            os.close(folder)

    def close(self):
        os.close(self._top)


def collect(workspace, order, known, most_entries, send):
    """What there is to say of a workspace, for the end of the run; send(index, bytes) hands contents over, see Workspace.read().

    order: {"all": whether contents of all files are wanted, else of images; "files", "file_bytes", "bytes": the most}, or None for no
    contents. known: {path: state()} of files that were there before the code, which count only when they are not as they were.
    Listed are at most LISTED files in order of path, `known` ones before others; names that are not UTF-8 with escapes. A file of which all
    was handed over has an "index", one of which it should have been has a "why". A known one that is neither listed nor gone nor as
    it was is "unlisted": replaced by a link, for example, or not looked at in time.
    """
    workspace.walk(most_entries)
    found = [file for file in workspace.files if known.get(file[1]) != state(file[2])]
    found.sort(key=lambda file: (file[1] not in known, file[1]))
    more = max(0, len(found) - LISTED)
    found = sorted(found[:LISTED], key=lambda file: file[1])
    listed = [{"path": path, "bytes": status.st_size} for _, path, status in found]
    if order is not None:
        _hand_over(workspace, order, found, listed, send)
    now = {path: workspace.state_of(path) for path in known}
    told = {file["path"] for file in listed}
    return {
        "files": listed,
        "files_more": more,
        "files_partial": workspace.partial,
        "files_other": workspace.other,
        "files_gone": [path for path in known if now[path] == GONE],
        "files_unlisted": [path for path in known if now[path] not in (GONE, known[path]) and path not in told],
    }


def nothing(known):
    """What there is to say of a workspace that the code has locked."""
    return {
        "files": [],
        "files_more": 0,
        "files_partial": "unreadable",
        "files_other": {},
        "files_gone": [],
        "files_unlisted": list(known),
    }


def _hand_over(workspace, order, found, listed, send):
    """Small ones first: one that is large must not keep all others back."""
    count = total = 0
    late = False
    for index in sorted(range(len(found)), key=lambda index: found[index][2].st_size):
        names, path, status = found[index]
        if not order["all"] and not path.lower().endswith(_IMAGES):
            continue
        size = status.st_size
        if any("\udc80" <= letter <= "\udcff" for name in names for letter in name):
            why = "name"
        elif size > order["file_bytes"]:
            why = "too_large"
        elif count >= order["files"]:
            why = "too_many"
        elif total + size > order["bytes"]:
            why = "no_room"
        elif late:
            why = "late"
        else:
            count += 1
            total += size
            why = workspace.read(names, status, lambda data, index=index: send(index, data))
            late = why == "late"
        if why is None:
            listed[index]["index"] = index
        else:
            listed[index]["why"] = why
