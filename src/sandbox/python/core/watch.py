"""What the processes of a sandbox use: memory, CPU time, processes and threads, room in the workspace."""

import os
import time

from . import mappings

PAGE = os.sysconf("SC_PAGE_SIZE")
TICK = os.sysconf("SC_CLK_TCK")
# What one socket's buffer holds by default (net.core.wmem_default), and how many nobody has to account for.
SOCKET_BYTES = 212_992
FREE_SOCKETS = 32
REST_S = 0.2  # without a look at most: the clock of a process that is running may lag behind
EXACT_WITHIN_S = 0.1
# Above this share of the limit the cheap estimate no longer decides.
NEAR = 0.75
# Page tables are a 512th of what they map, untouched pages included: below this size they are not worth a look.
SMALL_BYTES = 512 << 20


def _read(folder, path):
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
    try:
        return os.read(fd, 1 << 14)
    finally:
        os.close(fd)


def _list(folder, path):
    try:
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    except OSError:
        return []
    try:
        return os.listdir(fd)
    finally:
        os.close(fd)


def _kilobytes(status, name):
    """A field of a status such as b"VmRSS:  123 kB", in bytes; 0 where there is none."""
    try:
        return int(status.partition(name)[2].split(None, 1)[0]) * 1024
    except (IndexError, ValueError):
        return 0


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
                for task in _list(self.folder, f"{pid}/task"):
                    children = _read(self.folder, f"{pid}/task/{task}/children").decode().split()
                    queue += children
                    found += children
            except OSError:
                continue  # it went while we looked
        return list(dict.fromkeys(found))


class Watch:
    """Measures a running sandbox.

    Memory is the sum of what each process holds beyond the zygote's pages, plus page tables, shared memory that no process
    shows as its own (mappings.py) and the bytes in the tmpfs. The cheap estimate
    is the resident size (less the baseline for the guest, which shares the zygote's pages); near the limit the kernel is
    asked for exact figures, in which pages shared by fork count once. A process whose figures can't be read counts in full.
    """

    def __init__(self, proc, guest_pid, limit_bytes, box, own_view_pid):
        """guest_pid: as `proc` counts it; own_view_pid: as the caller's pid namespace does."""
        self.proc = proc
        self._clock_id = ~own_view_pid << 3 | 2  # CPU time of a process: MAKE_PROCESS_CPUCLOCK of the kernel
        self._clock = None
        self._alone = False
        self._looked_at = 0.0
        self._guest = str(guest_pid)
        self._limit = limit_bytes
        self._box = box  # descriptor of the tmpfs, or None
        self.baseline = self._sizes(self._guest)[1]
        self._shared = mappings.SharedMemory(proc.folder)
        self._sockets_at_start = self._sockets()
        self._cpu_of = {}  # pid -> ticks at the last look
        self._cpu_gone = 0  # ticks of those that are no longer there
        self.cpu_seen_ms = 0
        self.peak_bytes = 0
        self.peak_processes = 1
        self.box_peak_bytes = 0
        self.box_peak_files = 0
        self.box_full_bytes = False
        self.box_full_files = False

    def _sizes(self, pid):
        """(mapped, resident) bytes of a process; (0, 0) when it has gone."""
        try:
            mapped, resident = _read(self.proc.folder, f"{pid}/statm").split(None, 2)[:2]
        except (OSError, ValueError):
            return 0, 0
        if mapped != b"0":
            return int(mapped) * PAGE, int(resident) * PAGE
        # Its leader has ended before its threads, and shows no memory any more: a thread does.
        status = self._status(pid)
        return _kilobytes(status, b"VmSize:"), _kilobytes(status, b"VmRSS:")

    def _status(self, pid):
        """The status of a process, or of one of its threads where the leader has ended."""
        for path in (f"{pid}/status", *(f"{pid}/task/{tid}/status" for tid in _list(self.proc.folder, f"{pid}/task"))):
            try:
                text = _read(self.proc.folder, path)
            except OSError:
                continue
            if b"VmRSS:" in text:
                return text
        return b""

    def _page_tables(self, pid):
        return _kilobytes(self._status(pid), b"VmPTE:")

    def at_rest(self, now):
        """Whether nothing can have changed since the last look: it saw the guest alone, which has not run since.

        To be asked right before each look. Most code that runs for long waits, and a look costs as much as a small run.
        """
        try:
            clock = time.clock_gettime_ns(self._clock_id)
        except OSError:
            clock = None  # it has ended
        if self._alone and clock is not None and clock == self._clock and now - self._looked_at < REST_S:
            return True
        self._clock, self._looked_at, self._alone = clock, now, False
        return False

    def memory(self):
        """Bytes in use now."""
        in_box = self._look_into_box()
        pids = self.proc.processes()
        self._alone = pids == [self._guest]
        estimate = in_box
        mapped = {}
        tables = 0
        for pid in pids:
            mapped[pid], resident = self._sizes(pid)
            estimate += max(0, resident - self.baseline) if pid == self._guest else resident
            if mapped[pid] > SMALL_BYTES:
                tables += self._page_tables(pid)
        shared = self._shared.bytes(mapped, time.monotonic())
        # Asked at each look from here on: pages shared by fork turn private without the resident size telling.
        exact = estimate + shared > min(NEAR * self._limit, max(0, self._limit - self.baseline))
        if exact:
            end = time.monotonic() + EXACT_WITHIN_S
            # So many, or so large, that asking takes too long: the rest counts in full. Meanwhile nothing else is watched.
            parts = [self._exact(pid) if time.monotonic() < end else (self._sizes(pid)[1], 0) for pid in pids]
            # What they see of the tmpfs is in its own figure already.
            seen = max(0, sum(seen for _, seen in parts) - in_box)
            used = in_box + sum(own for own, _ in parts) + max(shared, seen)
        else:
            used = estimate
        used += tables + self._in_sockets()
        self.peak_bytes = max(self.peak_bytes, used)
        return used

    def _exact(self, pid):
        """(bytes of its own, bytes of shared memory) of a process."""
        try:
            text = _read(self.proc.folder, f"{pid}/smaps_rollup").decode()
        except OSError:
            return self._sizes(pid)[1], 0
        fields = {}
        if "Pss:" not in text:
            return self._sizes(pid)[1], 0  # as above
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
        baseline = self.baseline if pid == self._guest else 0
        return max(private - shared_memory, anonymous - baseline, 0), shared_memory

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
        """CPU time of the tree so far, in milliseconds.

        Of a child that its parent waits for the kernel tells; of one that nobody waits for, what was seen of it.
        """
        seen, waited = {}, 0
        for pid in self.proc.processes():
            try:
                fields = _read(self.proc.folder, f"{pid}/stat").rpartition(b")")[2].split()
                seen[pid] = int(fields[11]) + int(fields[12])  # utime, stime
                waited += int(fields[13]) + int(fields[14])  # cutime, cstime
            except (OSError, IndexError, ValueError):
                continue
        self._cpu_gone += sum(ticks for pid, ticks in self._cpu_of.items() if pid not in seen)
        self._cpu_of = seen
        self.cpu_seen_ms = (sum(seen.values()) + max(waited, self._cpu_gone)) * 1000 // TICK
        return self.cpu_seen_ms
