import { type Attack, NAMESPACES } from '../support/attack.js'

/** Files beyond the limits of the workspace, of each kind that there is. */
export const workspace: readonly Attack[] = [
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
]
