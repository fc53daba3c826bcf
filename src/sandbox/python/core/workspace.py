"""The files that a run left: listed when nothing runs any more, without following a link or opening anything but folders."""

import os
import stat

LISTED = 200
MAX_DEPTH = 16
_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def read_all(folder, name):
    with open(os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder), "rb") as file:
        return file.read()


def listing(path, most_entries):
    """([{path, bytes}] of at most LISTED regular files, in order of path; how many more there are).

    Names that are not UTF-8 come with escapes. Folders deeper than MAX_DEPTH, and entries beyond `most_entries`, are not
    looked into: the count then says at least.
    """
    found = []
    seen = 0
    pending = [((), "")]
    while pending:
        names, shown = pending.pop()
        try:
            fd = _descend(path, names)
        except OSError:
            continue
        try:
            for entry in os.listdir(fd):
                seen += 1
                if seen > most_entries:
                    break
                status = os.stat(entry, dir_fd=fd, follow_symlinks=False)
                label = shown + os.fsencode(entry).decode("utf-8", "backslashreplace")
                if stat.S_ISDIR(status.st_mode):
                    if len(names) < MAX_DEPTH:
                        pending.append(((*names, entry), label + "/"))
                elif stat.S_ISREG(status.st_mode) and status.st_nlink == 1:
                    # A second link may lead to a file of the machine's own (a tree on the same file system).
                    found.append({"path": label, "bytes": status.st_size})
        except OSError:
            continue
        finally:
            os.close(fd)
    found.sort(key=lambda file: file["path"])
    return found[:LISTED], max(0, len(found) - LISTED)


def _descend(path, names):
    fd = os.open(path, _FOLDER)
    for name in names:
        inner = os.open(name, _FOLDER, dir_fd=fd)
        os.close(fd)
        fd = inner
    return fd


def remove(parent, name):
    """Removes a folder and all below it, whatever its depth, names and modes. Errors leave the rest behind, silently.

    Folders are lifted to the top one by one, so that neither a path nor a stack of descriptors grows with the depth.
    """
    try:
        top = os.open(name, _FOLDER, dir_fd=parent)
    except OSError:
        return
    serial = 0
    try:
        progress = True
        while progress:
            progress = False
            for entry in os.listdir(top):
                status = os.stat(entry, dir_fd=top, follow_symlinks=False)
                if not stat.S_ISDIR(status.st_mode):
                    os.unlink(entry, dir_fd=top)
                    continue
                os.chmod(entry, 0o700, dir_fd=top)
                inner = os.open(entry, _FOLDER, dir_fd=top)
                try:
                    for below in os.listdir(inner):
                        serial += 1
                        below_status = os.stat(below, dir_fd=inner, follow_symlinks=False)
                        if stat.S_ISDIR(below_status.st_mode):
                            os.chmod(below, 0o700, dir_fd=inner)  # a folder that moves must be writable itself
                            os.rename(below, f".{serial}.{entry[:8]}", src_dir_fd=inner, dst_dir_fd=top)
                            progress = True
                        else:
                            os.unlink(below, dir_fd=inner)
                finally:
                    os.close(inner)
                os.rmdir(entry, dir_fd=top)
    except OSError:
        pass
    finally:
        os.close(top)
    try:
        os.rmdir(name, dir_fd=parent)
    except OSError:
        pass
