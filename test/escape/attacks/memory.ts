import { type Attack, LANDLOCK, NAMESPACES } from '../support/attack.js'
import { BUSY_LOCK, OUT, TOO_MUCH, WAIT } from '../support/too-much.js'

/** Memory of one's own beyond the limit, of each kind that there is. */
export const memory: readonly Attack[] = [
  { name: 'anonymous memory', code: `block = b"x" * (${TOO_MUCH} << 20)\n${WAIT}`, ends: OUT },
  {
    name: 'anonymous memory in small pieces',
    code: `blocks = [bytes([n & 255]) * (1 << 16) for n in range(${TOO_MUCH} * 16)]\n${WAIT}`,
    ends: OUT,
  },
  {
    name: 'MAP_POPULATE: memory as fast as the kernel gives it',
    code: `for _ in range(${TOO_MUCH / 8}): raw(NR["mmap"], 0, 8 << 20, 3, 0x8022, -1, 0)\n${WAIT}`,
    ends: OUT,
  },
  {
    name: 'MAP_POPULATE in two processes',
    tiers: NAMESPACES,
    code: `os.fork()\nfor _ in range(${TOO_MUCH / 12}): raw(NR["mmap"], 0, 8 << 20, 3, 0x8022, -1, 0)\n${WAIT}`,
    ends: OUT,
  },
  {
    name: 'MAP_POPULATE of gigabytes in one call, while other threads keep the lock busy',
    code: `${BUSY_LOCK}start_busy()\nmapped(5 << 29, 0x8022 | 0x4000)\n${WAIT}`,
    ends: OUT,
  },
  {
    name: 'memory of eight processes, each within the limit',
    tiers: NAMESPACES,
    code: `for _ in range(7):
    if os.fork() == 0: break
block = b"x" * (${TOO_MUCH / 8} << 20)\n${WAIT}`,
    ends: OUT,
  },
  {
    name: 'the stacks of threads',
    code: `import threading
threading.stack_size(64 << 20)
def fill(): block = (ctypes.c_char * (50 << 20))(); ctypes.memset(block, 1, 50 << 20); time.sleep(2)
for _ in range(8): threading.Thread(target=fill, daemon=True).start()
${WAIT}`,
    ends: OUT,
  },
  {
    name: 'memory of a thread whose process shows none, since its leader has ended',
    code: `import threading
def fill():
    time.sleep(0.1)
    block = b"x" * (${TOO_MUCH} << 20)
    ${WAIT.replaceAll('\n', '\n    ')}
threading.Thread(target=fill).start()
raw(NR["exit"], 0)`,
    ends: OUT,
  },
  {
    name: 'the same, under the name of a line that tells how much it is',
    code: `import threading
libc.prctl(15, b"VmSize:x VmRSS:", 0, 0, 0)
def fill():
    time.sleep(0.1)
    block = b"x" * (${TOO_MUCH} << 20)
    ${WAIT.replaceAll('\n', '\n    ')}
threading.Thread(target=fill).start()
raw(NR["exit"], 0)`,
    ends: OUT,
  },
  {
    name: 'memory let go of and taken again, so that a look comes between',
    code: `for n in range(60):
    block = b"x" * (${TOO_MUCH} << 20)
    del block
escaped("no limit")`,
    ends: OUT,
  },
  {
    name: 'locked memory, and huge pages by advice',
    code: `import mmap
area = mmap.mmap(-1, 1 << 20)
if raw(NR["mlockall"], 3) == "allowed": escaped("all")
if raw(NR["mlock"], ctypes.addressof(ctypes.c_char.from_buffer(area)), 1 << 20) == "allowed": escaped("a mebibyte")
print("tried")`,
  },
  {
    name: 'memory by recursion without end',
    code: 'sys.setrecursionlimit(10 ** 9)\ndef f(n): return f(n + 1) + 1\nf(0)',
    ends: { status: ['failed', 'crashed', 'out_of_memory'], stdout: '' },
  },
  {
    name: 'a memory limit of one’s own that hides the use',
    tiers: LANDLOCK,
    code: `attempt(lambda: open("/proc/self/clear_refs", "w").write("5"))
block = b"x" * (${TOO_MUCH} << 20)
${WAIT}`,
    ends: OUT,
  },
]
