"""The folder of a sandbox on the host: what was made in it is read and removed, whatever the code has done to it."""

import os
import stat

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def read_all(folder, name):
    with open(os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder), "rb") as file:
        return file.read()


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
