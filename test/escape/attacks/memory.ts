import { type Attack, type Ending, LANDLOCK, NAMESPACES } from '../support/attack.js'

const OUT: Ending = { status: 'out_of_memory', limit: 'memory', stdout: '' }
/** Held by a limit that the code gets an error from, or ended: both are right, to be let through is not. */
const HELD: Ending = {
  status: ['completed', 'failed', 'limit_exceeded', 'out_of_memory'],
  stdout: /^(tried\n)?$/,
}

/** Twice the limit of the tests and more, in mebibytes. */
const TOO_MUCH = 360
const WAIT = 'time.sleep(0.3)\nescaped("no limit")'

/** Two threads that change the process's mappings all the time: who asks what it has mapped waits for them, and for whoever
 * they wait for. And mappings anywhere. */
const BUSY_LOCK = `import threading
def mapped(size, flags, address=None, rights=3):
    return libc.syscall(ctypes.c_long(NR["mmap"]), address and ctypes.c_long(address), ctypes.c_long(size), ctypes.c_long(rights), ctypes.c_long(flags), ctypes.c_long(-1), None)
def busy():
    page = mapped(8192, 0x22)
    while True:
        raw(NR["mprotect"], page, 4096, 1)
        raw(NR["mprotect"], page, 4096, 3)
def start_busy():
    for _ in range(2): threading.Thread(target=busy, daemon=True).start()
    time.sleep(0.05)
`

/** Memory beyond the limit, of each kind that there is. */
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
    name: 'the same with shared memory',
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
    name: 'memory of eight processes, each within the limit',
    tiers: NAMESPACES,
    code: `for _ in range(7):
    if os.fork() == 0: break
block = b"x" * (${TOO_MUCH / 8} << 20)\n${WAIT}`,
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
  {
    name: 'memory let go of and taken again, so that a look comes between',
    code: `for n in range(60):
    block = b"x" * (${TOO_MUCH} << 20)
    del block
escaped("no limit")`,
    ends: OUT,
  },
  {
    name: 'files of the workspace',
    code: `for n in range(40):
    open(str(n), "wb").write(b"x" * (1 << 20))
    time.sleep(0.02)
escaped("no limit")`,
    ends: { status: ['failed', 'limit_exceeded'], limit: 'workspace_bytes', stdout: '' },
  },
  {
    name: 'files of the temporary folder, the home and /dev/shm together',
    tiers: NAMESPACES,
    code: `for folder in ("/tmp", "/dev/shm", os.path.expanduser("~"), "."):
    for n in range(3): open(f"{folder}/{n}", "wb").write(b"x" * (2 << 20))
escaped("no limit")`,
    ends: { status: 'failed', limit: 'workspace_bytes', stdout: '' },
  },
  {
    name: 'files without a name, held open',
    code: `held = []
for n in range(40):
    held.append(open(str(n), "w+b", buffering=0))
    os.unlink(str(n))
    held[-1].write(b"x" * (1 << 20))
    time.sleep(0.02)
escaped("no limit")`,
    ends: { status: ['failed', 'limit_exceeded'], limit: ['workspace_bytes', 'open_files'], stdout: '' },
  },
  {
    name: 'files that are gone before anybody looks',
    tiers: NAMESPACES,
    code: `import tempfile
with tempfile.TemporaryDirectory() as folder:
    for n in range(40):
        with open(f"{folder}/{n}", "wb", buffering=0) as file: os.posix_fallocate(file.fileno(), 0, 1 << 20)
escaped("no limit")`,
    ends: { status: 'failed', limit: 'workspace_bytes', stdout: '' },
  },
  {
    name: 'copies that are gone before anybody looks',
    tiers: NAMESPACES,
    code: `import shutil, tempfile
with tempfile.TemporaryDirectory() as folder:
    with open(f"{folder}/0", "wb") as file: file.write(b"x" * (1 << 20))
    for n in range(40): shutil.copy(f"{folder}/{n}", f"{folder}/{n + 1}")
escaped("no limit")`,
    ends: { status: 'failed', limit: 'workspace_bytes', stdout: '' },
  },
  {
    name: 'many files that are gone before anybody looks',
    tiers: NAMESPACES,
    code: `import tempfile
with tempfile.TemporaryDirectory() as folder:
    for n in range(900): os.symlink("x", f"{folder}/{n}")
escaped("no limit")`,
    ends: { status: 'failed', limit: 'workspace_files', stdout: '' },
  },
  {
    name: 'files without a name, mapped and closed',
    code: `import mmap
held = []
for n in range(40):
    with open(str(n), "w+b", buffering=0) as file:
        os.unlink(str(n))
        file.truncate(1 << 20)
        held.append(mmap.mmap(file.fileno(), 1 << 20))
        held[-1][:] = b"x" * (1 << 20)
    time.sleep(0.02)
escaped("no limit")`,
    ends: { status: ['failed', 'limit_exceeded', 'crashed', 'out_of_memory'], stdout: '' },
  },
  {
    name: 'files without a name, mapped by one page and closed',
    code: `libc.mmap.restype = ctypes.c_void_p
libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
for n in range(10):
    with open("x", "w+b", buffering=0) as file:
        os.unlink("x")
        libc.mmap(None, 4096, 1, 1, file.fileno(), 0)
        for _ in range(3): file.write(b"x" * (1 << 20))
    time.sleep(0.1)
time.sleep(0.5)
escaped("no limit")`,
    ends: { status: ['failed', 'limit_exceeded'], limit: 'workspace_bytes', stdout: '' },
  },
  {
    name: 'files without a name, held open by a thread whose leader has ended',
    code: `import threading
def fill():
    time.sleep(0.1)
    held = []
    for n in range(14):
        held.append(open(str(n), "w+b", buffering=0))
        os.unlink(str(n))
        try: held[-1].write(b"x" * (1 << 20))
        except OSError: os.write(1, b"tried\\n"); os._exit(0)
    time.sleep(1)
    escaped("no limit")
threading.Thread(target=fill).start()
raw(NR["exit"], 0)`,
    ends: { status: ['completed', 'limit_exceeded'], stdout: /^(tried\n)?$/ },
    endsInLandlock: { status: 'limit_exceeded', limit: 'workspace_bytes', stdout: '' },
  },
  {
    name: 'files behind folders of which the rights were taken away',
    code: `os.mkdir("deep")
os.chdir("deep")
for folder in (os.path.dirname(os.path.dirname(os.getcwd())), os.path.dirname(os.getcwd())):
    try: os.chmod(folder, 0o100 if folder.endswith("work") else 0)
    except OSError: pass
for n in range(14):
    with open(str(n), "wb") as file: file.write(b"x" * (1 << 20))
    time.sleep(0.02)
time.sleep(0.5)
escaped("no limit")`,
    ends: { status: ['failed', 'limit_exceeded'], limit: 'workspace_bytes', stdout: '' },
  },
  {
    name: 'files in a folder among names that vanish while it is looked at',
    code: `os.mkdir("deep")
for n in range(120): open(f"a{n}", "w").close()
for n in range(4):
    with open(f"deep/{n}", "wb") as file: file.write(b"x" * (3 << 20))
flip = 0
while time.process_time() < 0.6:
    old, new = ("a", "b") if flip == 0 else ("b", "a")
    for n in range(120): os.rename(f"{old}{n}", f"{new}{n}")
    flip ^= 1
escaped("no limit")`,
    ends: { status: ['failed', 'limit_exceeded'], limit: 'workspace_bytes', stdout: '' },
  },
  {
    name: 'a folder that has another name whenever it is looked at',
    code: `os.mkdir("0")
for n in range(4):
    with open(f"0/{n}", "wb") as file: file.write(b"x" * (3 << 20))
n = 0
while time.process_time() < 0.6:
    os.rename(str(n), str(n + 1))
    n += 1
escaped("no limit")`,
    ends: { status: ['failed', 'limit_exceeded'], limit: 'workspace_bytes', stdout: '' },
  },
  {
    name: 'a mapped file whose name is no text, and one of two lines',
    code: `libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long]
for name in (b"\\xff", b"a\\rb\\nc"):
    fd = os.open(name, os.O_CREAT | os.O_RDWR)
    os.write(fd, b"x")
    libc.mmap(None, 4096, 1, 1, fd, 0)
    sum(range(10 ** 6))
    time.sleep(0.3)
print("tried")`,
  },
  {
    name: 'a file of a size beyond everything, with nothing in it',
    code: `with open("sparse", "wb") as file: attempt(lambda: os.truncate(file.fileno(), 1 << 40))
attempt(lambda: os.posix_fallocate(os.open("sparse", os.O_RDWR), 0, 1 << 40))
print("tried")`,
    ends: { status: 'completed', stdout: 'tried\n' },
  },
  {
    name: 'one file beyond its size',
    code: `with open("big", "wb", buffering=0) as file:
    for _ in range(8): file.write(b"x" * (1 << 20))
escaped("no limit")`,
    ends: { status: ['failed', 'completed'], limit: 'file_size', stdout: '' },
  },
  {
    name: 'more files than there may be',
    code: `for n in range(900):
    open(str(n), "w").close()
    if n % 50 == 49: time.sleep(0.02)
time.sleep(0.5)
escaped("no limit")`,
    ends: { status: ['failed', 'limit_exceeded'], limit: 'workspace_files', stdout: '' },
  },
  {
    name: 'more folders than there may be, one in the other',
    code: `for n in range(900):
    os.mkdir("d"); os.chdir("d")
    if n % 50 == 49: time.sleep(0.02)
time.sleep(0.5)
escaped("no limit")`,
    ends: { status: ['failed', 'limit_exceeded'], limit: 'workspace_files', stdout: '' },
  },
  {
    name: 'more links than there may be',
    code: `for n in range(900):
    os.symlink("x" * 200, str(n))
    if n % 50 == 49: time.sleep(0.02)
time.sleep(0.5)
escaped("no limit")`,
    ends: { status: ['failed', 'limit_exceeded'], limit: 'workspace_files', stdout: '' },
  },
  {
    name: 'memory that waits in sockets',
    tiers: NAMESPACES,
    code: `block = b"x" * 65536
for _ in range(10):
    if os.fork() == 0: break
held = []
while True:
    try: pair = socket.socketpair()
    except OSError: break
    for one in pair:
        one.setblocking(False)
        held.append(one)
        try:
            while True: one.send(block)
        except OSError: pass
time.sleep(0.5)
print("tried") if os.getpid() == 2 else os._exit(0)`,
    ends: HELD,
  },
  {
    name: 'larger buffers for sockets',
    code: `for one in socket.socketpair():
    for option in (7, 8, 32, 33, 72):  # SO_SNDBUF, SO_RCVBUF, both by force, SO_BUF_LOCK
        answer = raw(NR["setsockopt"], one.fileno(), 1, option, ctypes.create_string_buffer(struct.pack("i", 1 << 26)), 4)
        if answer != "EPERM": escaped(option, answer)
print("tried")`,
  },
  {
    name: 'memory that waits in TCP connections which nobody has accepted, and in closed ones',
    tiers: NAMESPACES,
    code: `block = b"x" * 65536
for _ in range(10):
    if os.fork() == 0: break
server = socket.create_server(("127.0.0.1", 0), backlog=1000)
held = []
for n in range(900):
    try: one = socket.create_connection(server.getsockname(), 0.2)
    except OSError: break
    one.setblocking(False)
    try:
        while True: one.send(block)
    except OSError: pass
    if n % 2: held.append(one)
    else: one.close()
time.sleep(0.5)
print("tried") if os.getpid() == 2 else os._exit(0)`,
    ends: HELD,
  },
  {
    name: 'memory that waits in sockets within sockets',
    code: `pair = socket.socketpair()
held = [pair]
for one in pair: one.setblocking(False)
sent = 0
try:
    for _ in range(2000):
        ours, theirs = socket.socketpair()
        ours.setblocking(False)
        try:
            while True: ours.send(b"x" * 65536)
        except OSError: pass
        socket.send_fds(pair[0], [b"x"], [ours.fileno(), theirs.fileno()])
        ours.close(); theirs.close()
        sent += 1
except OSError: pass
if sent > 400: escaped(sent)
print("tried")`,
    ends: HELD,
  },
  {
    name: 'memory that waits in pipes',
    code: `import fcntl
held = []
try:
    while True:
        ours, theirs = os.pipe()
        held.append(theirs)
        try: fcntl.fcntl(theirs, 1031, 1 << 20); escaped("a larger pipe")
        except OSError: pass
        os.set_blocking(theirs, False)
        try:
            while True: os.write(theirs, bytes(65536))
        except OSError: pass
except OSError: pass
print("tried")`,
  },
  {
    name: 'signals and timers that wait in the kernel',
    code: `made, event, place = 0, ctypes.create_string_buffer(struct.pack("QiiI", 0, 10, 1, 0), 64), ctypes.create_string_buffer(8)
while made < 20000 and raw(NR["timer_create"], 1, event, place) == "allowed": made += 1
if made > 10000: escaped(made, "timers")
print("tried")`,
  },
  {
    name: 'open files beyond their number',
    code: `held = []
for _ in range(400): held.append(os.open("/dev/null", os.O_RDONLY))
escaped(len(held))`,
    ends: { status: 'failed', limit: 'open_files', stdout: '' },
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
