"""What the processes of a sandbox use: memory, CPU time, processes and threads, room in the workspace."""

import os
import time

from . import processes, sockets
from .reader import EXACT, OBJECTS, Reader

TICK = os.sysconf("SC_CLK_TCK")
REST_S = 0.2  # without a look at most: the clock of a process that is running may lag behind
# Above this share of the limit the cheap estimate no longer decides.
NEAR = 0.75
# The shared memory of a process that has run is asked for anew after so long, or at once after such a change in what it
# maps; of so many processes at a time that changed most, and of so many that have waited longest.
REREAD_S = 0.25
REREAD_BYTES = 4 << 20
REREAD_MOST = 4


class Watch:
    """Measures a running sandbox.

    Memory is the sum of what each process holds beyond the zygote's pages, plus page tables, shared memory that no process
    shows as its own, the bytes in the tmpfs and what sockets can hold. The cheap estimate is the resident size (less the
    baseline for the guest, which shares the zygote's pages). Near the limit the kernel is asked for exact figures, in which
    pages shared by fork count once; they are read by a thread (reader.py), since a process can hold them back. Until all are
    there, what counts is what is certain: the last that were complete and what has come since, or the largest process. A
    process that keeps its figures back for long counts in full, as does one whose figures can't be read.
    """

    def __init__(self, of, guest_pid, limit_bytes, box, own_view_pid, tcp_bytes):
        """of: OwnProc or OuterProc; guest_pid: as it counts; own_view_pid: as the caller's pid namespace does; tcp_bytes: see
        sockets.Sockets."""
        self.proc = of
        self._own_view_pid = own_view_pid
        self._clock = None
        self._alone = False
        self._looked_at = 0.0
        self._guest = str(guest_pid)
        self._limit = limit_bytes
        self._box = box  # descriptor of the tmpfs, or None
        self._base = processes.sizes(of.folder, self._guest, None) or processes.NOTHING
        self.baseline = self._base.resident
        self._sizes = {self._guest: self._base}
        self._reader = Reader(of.folder)
        self._objects = {}  # pid -> (bytes mapped, CPU time it had used, time, all when asked, {object: bytes})
        self._round = {}  # pid -> exact figures, while not all have come
        self._when_asked = {}  # pid -> the first three of the above
        self._since = {}  # pid -> (bytes of its own, of shared memory, anonymous bytes at that time)
        self._sockets = sockets.Sockets(of.folder, tcp_bytes) if box is not None else sockets.SocketsOf(of.folder)
        self._cpu_of = {}  # pid -> ticks at the last look
        self._cpu_gone = 0  # ticks of those that are no longer there
        self.cpu_seen_ms = 0
        self.peak_bytes = 0
        self.peak_processes = 1
        self.box_peak_bytes = 0
        self.box_peak_files = 0
        self.box_full_bytes = False
        self.box_full_files = False

    def at_rest(self, now):
        """Whether nothing can have changed since the last look: it saw the guest alone, which has not run since.

        To be asked right before each look. Most code that runs for long waits, and a look costs as much as a small run.
        """
        clock = _cpu_clock(self._own_view_pid)
        if self._alone and clock is not None and clock == self._clock and now - self._looked_at < REST_S:
            return True
        self._clock, self._looked_at, self._alone = clock, now, False
        return False

    def memory(self):
        """Bytes in use now: at most, while they are far from the limit; near it, at least."""
        now = time.monotonic()
        in_box = self._look_into_box()
        pids = self.proc.processes()
        self._alone = pids == [self._guest]
        self._measure(pids)
        sizes, base = self._sizes, self._base
        tables = sum(one.tables for one in sizes.values())
        certain = in_box + max(0, tables - base.tables) + self._sockets.bytes(pids)
        resident = sum(self._beyond_zygote(pid, one.resident) for pid, one in sizes.items())
        asked = self._shared_to_ask(certain + resident, now)
        # Asked at each look from here on: pages shared by fork turn private without the resident size telling.
        near = certain + resident + self._shared() > self._near(base.resident)
        if near:
            asked += [(EXACT, pid) for pid in sizes]
        if asked and self._reader.idle(now):
            self._when_asked = {pid: (one.mapped, _cpu_clock(one.pid), now) for pid, one in sizes.items()}
            self._reader.ask(asked, now)
        self._take(*self._reader.answers())
        missing, kept, in_full = self._reader.missing(now)
        if near:
            used = certain + self._at_least(in_box, missing, kept, in_full)
        else:
            used = certain + resident + self._shared()
        self.peak_bytes = max(self.peak_bytes, used)
        return used

    def _near(self, hidden):
        """hidden: of the guest's figures, what it may have replaced without its sizes telling."""
        return min(NEAR * self._limit, max(0, self._limit - hidden))

    def _measure(self, pids):
        found = {}
        for pid in pids:
            one = processes.sizes(self.proc.folder, pid, self._sizes.get(pid))
            if one is not None:
                found[pid] = one
        self._sizes = found
        self._objects = {pid: objects for pid, objects in self._objects.items() if pid in found}
        start = self._base.anonymous
        self._since = {
            pid: self._since.get(pid) or (0, 0, start if pid == self._guest else one.anonymous)
            for pid, one in found.items()
        }

    def _beyond_zygote(self, pid, size):
        return max(0, size - self.baseline) if pid == self._guest else size

    def _shared_to_ask(self, others, now):
        """Whose shared memory is to be looked at: nobody's while all that is mapped would be no more than a part of the limit."""
        mapped = sum(one.mapped for one in self._sizes.values()) - self._base.mapped
        if others + mapped <= self._near(self._base.mapped):
            return []
        changed = {}
        for pid, one in self._sizes.items():
            mapped, clock, when, _ = self._objects.get(pid, (0, None, 0.0, None))
            if abs(one.mapped - mapped) >= REREAD_BYTES or (now - when >= REREAD_S and clock != _cpu_clock(one.pid)):
                changed[pid] = abs(one.mapped - mapped), when
            elif clock is None:
                changed[pid] = 0, when
        # Many processes can't keep one of them out of sight: neither by their number, nor by changing all the time.
        most = sorted(changed, key=lambda pid: -changed[pid][0])[:REREAD_MOST]
        oldest = sorted(changed, key=lambda pid: changed[pid][1])[:REREAD_MOST]
        return [(OBJECTS, pid) for pid in dict.fromkeys(most + oldest)]

    def _shared(self):
        """Bytes of all shared anonymous memory that is known."""
        largest = {}
        for *_, found in self._objects.values():
            for name, size in found.items():
                largest[name] = max(size, largest.get(name, 0))
        return sum(largest.values())

    def _take(self, answers, last):
        for (kind, pid), answer in answers:
            one = self._sizes.get(pid)
            if one is None or (answer is None and kind is EXACT and self._gone(pid)):
                continue
            if kind is OBJECTS:
                self._objects[pid] = *self._when_asked[pid], {pid: one.mapped} if answer is None else answer
            elif answer is None:  # not to be read though it is there
                self._round[pid] = self._beyond_zygote(pid, one.resident), 0, one.anonymous
            else:
                anonymous, private, shared, all_anonymous = answer
                # What is left of the zygote's pages in it is nobody's use; what was written to is private by now.
                own = max(private, anonymous - self.baseline if pid == self._guest else anonymous, 0)
                self._round[pid] = own, shared, all_anonymous
        if last:
            self._since.update((pid, figures) for pid, figures in self._round.items() if pid in self._since)
            self._round = {}

    def _gone(self, pid):
        return processes.sizes(self.proc.folder, pid, None) is None

    def _at_least(self, in_box, missing, kept, in_full):
        """Bytes that the processes hold for certain, the tmpfs and page tables apart.

        The exact figures are of one round, in which all that lived at its beginning were asked: taken together with older
        ones, pages would count twice that were shared in between. Each page that came since belongs to one process.
        """
        sizes = self._sizes
        own = {
            pid: max(0, min(had + one.anonymous - then, one.resident))
            for pid, one in sizes.items()
            for had, _, then in (self._since[pid],)
        }
        seen = sum(seen for _, seen, _ in self._since.values())
        shared = self._shared()
        if in_full:
            for kind, pid in missing:
                one = sizes.get(pid)
                if one is not None and kind is EXACT:
                    own[pid] = self._beyond_zygote(pid, one.anonymous + one.shared)
                elif one is not None:
                    more = one.mapped - self._objects.get(pid, (self._base.mapped,))[0]
                    shared += min(max(0, more), self._limit)
        if kept:
            # A process that maps the same object twice shows it twice: so only while there is nothing better.
            seen = max([seen, *(one.shared for one in sizes.values())])
        # What they see of the tmpfs is in its own figure already.
        largest = max((one.anonymous - self._base.anonymous for one in sizes.values()), default=0)
        return max(sum(own.values()), largest) + max(shared, seen - in_box)

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

    def counts(self):
        """(processes and threads now, CPU time of the tree so far in milliseconds).

        Of a child that its parent waits for the kernel tells; of one that nobody waits for, what was seen of it.
        """
        count, seen, waited = 0, {}, 0
        for pid in self.proc.processes():
            try:
                fields = processes.read(self.proc.folder, f"{pid}/stat").rpartition(b")")[2].split()
                seen[pid] = int(fields[11]) + int(fields[12])  # utime, stime
                waited += int(fields[13]) + int(fields[14])  # cutime, cstime
                count += int(fields[17])
            except (OSError, IndexError, ValueError):
                continue
        self.peak_processes = max(self.peak_processes, count)
        self._cpu_gone += sum(ticks for pid, ticks in self._cpu_of.items() if pid not in seen)
        self._cpu_of = seen
        self.cpu_seen_ms = (sum(seen.values()) + max(waited, self._cpu_gone)) * 1000 // TICK
        return count, self.cpu_seen_ms


def _cpu_clock(pid):
    """CPU time that a process of this pid namespace has used, in ns; None when it has ended."""
    try:
        return time.clock_gettime_ns(~pid << 3 | 2)  # MAKE_PROCESS_CPUCLOCK of the kernel
    except OSError:
        return None
