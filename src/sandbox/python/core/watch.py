"""What the processes of a sandbox use: memory, CPU time, processes and threads, room in the workspace."""

import os

PAGE = os.sysconf("SC_PAGE_SIZE")
TICK = os.sysconf("SC_CLK_TCK")
# What one socket's buffer holds by default (net.core.wmem_default), and how many nobody has to account for.
SOCKET_BYTES = 212_992
FREE_SOCKETS = 32
# Above this share of the limit the cheap estimate no longer decides.
NEAR = 0.75


def _read(folder, path):
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
    try:
        return os.read(fd, 1 << 14)
    finally:
        os.close(fd)


class OwnProc:
    """Processes of a sandbox that has a pid namespace and a /proc of its own: all but its PID 1."""

    def __init__(self, folder):
        self.folder = folder

    def processes(self):
        return [name for name in os.listdir(self.folder) if name.isdigit() and name != "1"]


class OuterProc:
    """The same through the outside's /proc, where a sandbox has none: the descendants of the warden and of the guest."""

    def __init__(self, folder, parents):
        self.folder = folder
        self._parents = parents  # pids as the outside's /proc counts them: [guest] or [warden, guest]

    def processes(self):
        found = [str(self._parents[-1])]
        queue = [str(pid) for pid in self._parents]
        while queue:
            pid = queue.pop()
            try:
                for task in self._tasks(pid):
                    children = _read(self.folder, f"{pid}/task/{task}/children").decode().split()
                    queue += children
                    found += children
            except OSError:
                continue  # it went while we looked
        return list(dict.fromkeys(found))

    def _tasks(self, pid):
        fd = os.open(f"{pid}/task", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=self.folder)
        try:
            return os.listdir(fd)
        finally:
            os.close(fd)


class Watch:
    """Measures a running sandbox.

    Memory is the sum of what each process holds beyond the zygote's pages, plus the bytes in the tmpfs. The cheap estimate
    is the resident size (less the baseline for the guest, which shares the zygote's pages); near the limit the kernel is
    asked for exact figures, in which pages shared by fork count once. A process whose figures can't be read counts in full.
    """

    def __init__(self, proc, guest_pid, limit_bytes, box):
        self.proc = proc
        self._guest = str(guest_pid)
        self._limit = limit_bytes
        self._box = box  # descriptor of the tmpfs, or None
        self.baseline = self._resident(self._guest)
        self._sockets_at_start = self._sockets()
        self.peak_bytes = 0
        self.peak_processes = 1
        self.box_peak_bytes = 0
        self.box_peak_files = 0
        self.box_full_bytes = False
        self.box_full_files = False

    def _resident(self, pid):
        try:
            return int(_read(self.proc.folder, f"{pid}/statm").split()[1]) * PAGE
        except (OSError, IndexError):
            return 0

    def memory(self):
        """Bytes in use now."""
        in_box = self._look_into_box()
        pids = self.proc.processes()
        estimate = in_box
        for pid in pids:
            resident = self._resident(pid)
            estimate += max(0, resident - self.baseline) if pid == self._guest else resident
        # Asked at each look from here on: pages shared by fork turn private without the resident size telling.
        exact = estimate > min(NEAR * self._limit, max(0, self._limit - self.baseline))
        used = in_box + sum(self._exact(pid) for pid in pids) if exact else estimate
        used += self._in_sockets()
        self.peak_bytes = max(self.peak_bytes, used)
        return used

    def _exact(self, pid):
        try:
            text = _read(self.proc.folder, f"{pid}/smaps_rollup").decode()
        except OSError:
            return self._resident(pid)
        fields = {}
        for line in text.splitlines()[1:]:
            name, _, rest = line.partition(":")
            fields[name] = int(rest.split()[0]) * 1024
        anonymous = fields.get("Pss_Anon")
        if anonymous is None:  # before Linux 5.9
            anonymous, shared_memory = fields.get("Pss", 0), 0
        else:
            shared_memory = fields.get("Pss_Shmem", 0)
        private = fields.get("Private_Dirty", 0)
        # What is left of the zygote's pages in it is nobody's use; what was written to is private by now.
        return max(private, anonymous + shared_memory - (self.baseline if pid == self._guest else 0))

    def _sockets(self):
        """Sockets in the sandbox's network namespace; 0 where it has none of its own to ask."""
        if self._box is None:
            return 0
        try:
            return int(_read(self.proc.folder, "self/net/sockstat").split()[2])  # "sockets: used N"
        except (OSError, IndexError, ValueError):
            return 0

    def _in_sockets(self):
        """What waits in sockets is no process's memory: beyond the first few, each counts with all that it can hold."""
        return max(0, self._sockets() - self._sockets_at_start - FREE_SOCKETS) * SOCKET_BYTES

    def _look_into_box(self):
        if self._box is None:
            return 0
        status = os.fstatvfs(self._box)
        used = (status.f_blocks - status.f_bfree) * status.f_frsize
        self.box_peak_bytes = max(self.box_peak_bytes, used)
        self.box_peak_files = max(self.box_peak_files, status.f_files - status.f_ffree)
        self.box_full_bytes |= status.f_bfree == 0
        self.box_full_files |= status.f_ffree == 0
        return used

    def processes(self):
        """Processes and threads now."""
        count = 0
        for pid in self.proc.processes():
            try:
                count += int(_read(self.proc.folder, f"{pid}/stat").rpartition(b")")[2].split()[17])
            except (OSError, IndexError, ValueError):
                continue
        self.peak_processes = max(self.peak_processes, count)
        return count

    def cpu_ms(self):
        """CPU time of what runs now and of what it has waited for, in milliseconds."""
        ticks = 0
        for pid in self.proc.processes():
            try:
                fields = _read(self.proc.folder, f"{pid}/stat").rpartition(b")")[2].split()
                ticks += sum(map(int, fields[11:15]))  # utime, stime, cutime, cstime
            except (OSError, IndexError, ValueError):
                continue
        return ticks * 1000 // TICK
