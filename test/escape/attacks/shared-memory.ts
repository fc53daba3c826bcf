import { type Attack, NAMESPACES } from '../support/attack.js'
import { BUSY_LOCK, OUT, TOO_MUCH, WAIT } from '../support/too-much.js'

/** Memory beyond the limit that no process shows as its own: shared, shared since a fork, and page tables. */
export const sharedMemory: readonly Attack[] = [
  {
    name: 'MAP_POPULATE of gigabytes of shared memory in one call, while other threads keep the lock busy',
    code: `${BUSY_LOCK}start_busy()\nmapped(5 << 29, 0x8021)\n${WAIT}`,
    ends: OUT,
  },
  {
    name: 'pages written after a fork, by processes that keep their locks busy at the lowest priority',
    tiers: NAMESPACES,
    code: `${BUSY_LOCK}block = bytearray(100 << 20)
for n in range(0, len(block), 4096): block[n] = 1
def hold():
    zeros = mapped(64 << 30, 0x4022, None, 1)
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    while True: libc.madvise(ctypes.c_void_p(zeros), ctypes.c_size_t(8 << 30), 22)
for n in range(3):
    if os.fork() == 0:
        threading.Thread(target=busy, daemon=True).start()
        threading.Thread(target=hold, daemon=True).start()
        time.sleep(0.2)
        for at in range(0, len(block), 4096): block[at] = n
        ${WAIT.replaceAll('\n', '\n        ')}
        time.sleep(9)
time.sleep(8)`,
    ends: OUT,
  },
  {
    name: 'shared memory behind many processes with long lists of mappings',
    tiers: NAMESPACES,
    code: `import mmap
area = libc.syscall(ctypes.c_long(NR["mmap"]), None, ctypes.c_long(14000 << 12), ctypes.c_long(0), ctypes.c_long(0x4022), ctypes.c_long(-1), None)
for n in range(0, 14000, 2): raw(NR["mprotect"], area + (n << 12), 4096, 1)
for _ in range(8):
    if os.fork() == 0: time.sleep(9); os._exit(0)
time.sleep(0.3)
block = mmap.mmap(-1, 1 << 30)
for n in range(0, len(block), 4 << 20):
    block[n : n + (4 << 20)] = bytes(4 << 20)
    block.madvise(mmap.MADV_DONTNEED)
${WAIT}`,
    ends: OUT,
  },
  {
    name: 'shared anonymous memory',
    code: `import mmap\nblock = mmap.mmap(-1, ${TOO_MUCH} << 20)\nfor n in range(0, len(block), 4096): block[n] = 1\n${WAIT}`,
    ends: OUT,
  },
  {
    name: 'shared anonymous memory that only a child has touched',
    tiers: NAMESPACES,
    code: `import mmap
block = mmap.mmap(-1, ${TOO_MUCH} << 20)
if os.fork() == 0:
    for n in range(0, len(block), 4096): block[n] = 1
    os._exit(0)
os.wait()
for n in range(0, len(block), 4096): block[n]
${WAIT}`,
    ends: OUT,
  },
  {
    name: 'shared memory touched by a child that has gone, mapped by nobody who touches it',
    tiers: NAMESPACES,
    code: `import mmap
block = mmap.mmap(-1, ${TOO_MUCH} << 20)
for part in range(12):
    if os.fork() == 0:
        size = len(block) // 12
        for n in range(part * size, part * size + size, 4096): block[n] = 1
        os._exit(0)
    os.wait()
${WAIT}`,
    ends: OUT,
  },
  {
    name: 'shared anonymous memory, filled and dropped from the page tables',
    code: `import mmap
block = mmap.mmap(-1, ${TOO_MUCH} << 20)
for n in range(0, len(block), 4 << 20):
    block[n : n + (4 << 20)] = bytes(4 << 20)
    block.madvise(mmap.MADV_DONTNEED)
${WAIT}`,
    ends: OUT,
  },
  {
    name: 'pages written after a fork',
    tiers: NAMESPACES,
    code: `block = bytearray(60 << 20)
for n in range(0, len(block), 4096): block[n] = 1
for _ in range(5):
    if os.fork() == 0: break
for n in range(0, len(block), 4096): block[n] = os.getpid() & 255
${WAIT}`,
    ends: OUT,
  },
  {
    name: 'page tables of untouched memory',
    code: `reads = ctypes.c_char.from_address
for _ in range(${TOO_MUCH / 2}):
    address = libc.syscall(ctypes.c_long(NR["mmap"]), None, ctypes.c_long(1 << 30), ctypes.c_long(1), ctypes.c_long(0x4022), ctypes.c_long(-1), None)
    raw(NR["madvise"], address, 1 << 30, 15)  # no huge pages
    for n in range(0, 1 << 30, 2 << 20): reads(address + n).value
${WAIT}`,
    ends: OUT,
  },
  {
    name: 'page tables of single pages, each far from the next',
    code: `${BUSY_LOCK}reads = ctypes.c_char.from_address
for n in range(1, 23000):  # 8 KiB of tables each
    at = 0x100000000000 + (n << 30)
    if mapped(4096, 0x100022, at, 1) != at: break
    reads(at).value
${WAIT}`,
    ends: OUT,
  },
  {
    name: 'page tables, under the name of a line that tells how many they are',
    code: `${BUSY_LOCK}reads = ctypes.c_char.from_address
libc.prctl(15, b"VmPTE: 0 ", 0, 0, 0)
for _ in range(${TOO_MUCH / 2}):
    at = mapped(1 << 30, 0x4022, None, 1)
    raw(NR["madvise"], at, 1 << 30, 15)  # no huge pages
    for n in range(0, 1 << 30, 2 << 20): reads(at + n).value
${WAIT}`,
    ends: OUT,
  },
  {
    name: 'shared memory of a thread whose leader has ended, dropped from the page tables',
    code: `import mmap, threading
def fill():
    time.sleep(0.1)
    block = mmap.mmap(-1, ${TOO_MUCH} << 20)
    for n in range(0, len(block), 4 << 20):
        block[n : n + (4 << 20)] = bytes(4 << 20)
        block.madvise(mmap.MADV_DONTNEED)
    ${WAIT.replaceAll('\n', '\n    ')}
threading.Thread(target=fill).start()
raw(NR["exit"], 0)`,
    ends: OUT,
  },
]
