"""How full a sandbox's folder on the host is, while its code runs and does with names and modes whatever it likes.

What can't be found out counts as more than any limit. What is walked is a descriptor that was opened before the code began.
"""

import os
import stat
import time

UNREADABLE = 1 << 60  # bytes
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
LISTINGS = 16  # of one folder, while names go before they can be looked at
LISTINGS_S = 0.03
INCOMPLETE_LOOKS = 3  # in a row, which together count as more than any limit


class Disk:
    def __init__(self, top, most_entries, file_bytes):
        """top: descriptor of the folder. most_entries: where counting stops. file_bytes: what one file can hold at most."""
        self._top = top
        self._device = os.fstat(top).st_dev
        self._most_entries = most_entries
        self._file_bytes = file_bytes
        self._incomplete = 0

    def usage(self):
        """(bytes, entries) with a name. A file with several counts once.

        A folder stays open only while others in it are still to be entered, so that neither many nor deep ones are too many.
        """
        total = count = 0
        self._linked = set()
        self._complete = True
        pending = [(self._top, None)]  # (descriptor, folders in it that are still to be entered, or None: not looked at yet)
        try:
            while pending and count <= self._most_entries:
                fd, inner = pending.pop()
                below = None
                try:
                    if inner is None:
                        found, seen, inner = self._look(fd, self._most_entries - count)
                        total += found
                        count += seen
                    if inner:
                        below = self._enter(fd, *inner.pop())
                except OSError:
                    total += UNREADABLE
                if inner:
                    pending.append((fd, inner))
                elif fd != self._top:
                    os.close(fd)
                if below is not None:
                    pending.append((below, None))
        finally:
            for fd, _ in pending:
                if fd != self._top:
                    os.close(fd)
        self._incomplete = 0 if self._complete else self._incomplete + 1
        if self._incomplete >= INCOMPLETE_LOOKS:
            total += UNREADABLE
        return total, count

    def _look(self, fd, most):
        """(bytes, entries, [(inode, name) of a folder]) of one folder.

        A name that goes between listing and look is either a file that is deleted or one that is renamed, and by renaming them
        without end code could hide all that it has: so it is listed again until all that is there has been seen.
        """
        end = time.monotonic() + LISTINGS_S
        known = {}  # inode -> (bytes, name of a folder, key of a file with several names)
        for _ in range(LISTINGS):
            listed = {}
            count = 0
            missed = False
            with os.scandir(fd) as entries:
                for entry in entries:
                    size, folder, key = known.get(entry.inode(), (None, None, None))
                    if size is None:
                        try:
                            status = os.stat(entry.name, dir_fd=fd, follow_symlinks=False)
                        except FileNotFoundError:
                            missed = True
                            continue
                        size, folder = status.st_blocks * 512, stat.S_ISDIR(status.st_mode)
                        key = (status.st_dev, status.st_ino) if status.st_nlink > 1 and not folder else None
                    listed[entry.inode()] = size, entry.name if folder else None, key
                    count += 1
                    if count > most:
                        break
            known = listed
            if not missed or count > most or time.monotonic() > end:
                break
        self._complete &= not missed
        total = 0
        folders = []
        for inode, (size, name, key) in known.items():
            if name is not None:
                folders.append((inode, name))
            if key is None or key not in self._linked:
                total += size
            if key is not None:
                self._linked.add(key)
        return total, count, folders

    def _enter(self, fd, inode, name):
        """A descriptor of a folder, under the name that it has by now; None where it has gone."""
        for _ in range(LISTINGS):
            try:
                return os.open(name, _FOLDER, dir_fd=fd)
            except (FileNotFoundError, NotADirectoryError):
                with os.scandir(fd) as entries:
                    name = next((entry.name for entry in entries if entry.inode() == inode), None)
                if name is None:
                    return None
        self._complete = False
        return None

    def unlinked(self, proc, pid, box):
        """Bytes of files below the path `box` that have no name any more but are held open or mapped by a process; `proc` is a
        descriptor of /proc, the path is in bytes. A walk over names does not see them, and they fill the disk all the same.

        One that is mapped and not open counts with all that a file can hold: its size is nowhere to be read without privilege.
        """
        total = 0
        opened = set()
        for who in _alive(proc, pid):
            names, fds = _open_files(proc, who)
            if fds is None:
                continue
            try:
                for name in names:
                    try:
                        status = os.stat(name, dir_fd=fds)
                    except OSError:
                        continue
                    # Numbers of another file system say nothing here.
                    ours = stat.S_ISREG(status.st_mode) and (status.st_nlink == 0 or status.st_dev == self._device)
                    if ours and status.st_ino not in opened:
                        opened.add(status.st_ino)
                        total += status.st_blocks * 512 if status.st_nlink == 0 else 0
            finally:
                os.close(fds)
            break
        mapped = set()
        for who in _alive(proc, pid):
            maps = _maps(proc, who)
            if not maps:
                continue
            for line in maps:
                fields = line.split(None, 5)
                if len(fields) == 6 and fields[5].startswith(box) and fields[5].endswith(b"(deleted)"):
                    mapped.add(int(fields[4]))
            break
        return total + len(mapped - opened) * self._file_bytes


def _alive(proc, pid):
    """Where a process shows what it has: itself, or one of its threads where the first has ended."""
    yield pid
    try:
        tasks = os.open(f"{pid}/task", _FOLDER, dir_fd=proc)
    except OSError:
        return
    try:
        threads = os.listdir(tasks)
    finally:
        os.close(tasks)
    yield from (f"{pid}/task/{thread}" for thread in threads)


def _open_files(proc, who):
    """(names, descriptor of the folder that lists them), or ([], None) where nothing is shown."""
    try:
        fds = os.open(f"{who}/fd", _FOLDER, dir_fd=proc)
    except OSError:
        return [], None
    try:
        names = os.listdir(fds)
    except OSError:
        names = []
    if names:
        return names, fds
    os.close(fds)
    return [], None


def _maps(proc, who):
    """The lines of a list of mappings; none where nothing is shown. Names in them are any bytes."""
    try:
        with open(os.open(f"{who}/maps", os.O_RDONLY | os.O_CLOEXEC, dir_fd=proc), "rb") as maps:
            return maps.read().split(b"\n")
    except OSError:
        return []
