import { type Attack, NAMESPACES } from '../support/attack.js'

/**
 * Files left for whoever collects them. None may make it read what the code could not read, wait, or take without end: the ground complains of
 * contents that are the host's, and each of these has to end in time, with the next call served.
 */
export const collection: readonly Attack[] = [
  {
    name: 'a file that is swapped for a link to the host until the last moment',
    tiers: NAMESPACES,
    code: `os.makedirs("d")
target = BAIT["folder"] + "/readable"
if os.fork() == 0:
    os.setsid()
    while True:
        for name in ("file.txt", "d/file.txt"):
            try:
                open(name, "w").write("mine")
                os.symlink(target, "link"); os.rename("link", name)
            except OSError: pass
time.sleep(0.1)
print("tried")`,
  },
  {
    name: 'a folder that is swapped for a link to the host until the last moment',
    tiers: NAMESPACES,
    code: `os.makedirs("d")
if os.fork() == 0:
    os.setsid()
    while True:
        try:
            open("d/readable", "w").write("mine")
            os.rename("d", "e"); os.symlink(BAIT["folder"], "d"); os.unlink("d"); os.rename("e", "d")
        except OSError: pass
time.sleep(0.1)
print("tried")`,
  },
  {
    name: 'links to files, folders, devices and to themselves',
    code: `for name, target in (("a.txt", BAIT["folder"] + "/readable"), ("b.png", "/etc/passwd"), ("c", "/proc/self/environ"), ("d", "/dev/zero"), ("e", "/"), ("f", "f"), ("g.csv", "/proc/1/mem"), ("h", "../../../.." + BAIT["folder"] + "/readable")):
    os.symlink(target, name)
os.mkdir("folder"); os.symlink("..", "folder/up")
print("tried")`,
  },
  {
    name: 'hard links to files of the host and of the sandbox',
    code: `for n, source in enumerate((BAIT["folder"] + "/readable", "/etc/ld.so.cache", os.__file__, sys.executable, "../code/main.py")):
    try: os.link(source, f"link{n}.txt")
    except OSError: pass
open("own", "w").write("x"); os.link("own", "own too")
print("tried")`,
  },
  {
    name: 'pipes that nobody writes to, under the names of files',
    code: `for name in ("data.csv", "plot.png", "a.txt"): os.mkfifo(name)
print("tried")`,
  },
  {
    name: 'devices and sockets under the names of files',
    code: `import socket
for kind in (0o060000, 0o020000, 0o140000):
    try: os.mknod(f"n{kind}.png", kind | 0o666, os.makedev(1, 5))
    except OSError: pass
try: socket.socket(socket.AF_UNIX).bind("socket.png")
except OSError: pass
print("tried")`,
  },
  {
    name: 'a tree that is deeper than a path may be',
    code: `for n in range(150):
    os.mkdir("d" * 100); os.chdir("d" * 100)
    open("file.txt", "w").write("x")
print("tried")`,
    ends: { status: ['completed', 'failed'], limit: [null, 'workspace_files'], stdout: /^(tried\n)?$/ },
    endsInLandlock: { status: ['completed', 'failed', 'limit_exceeded'], stdout: /^(tried\n)?$/ },
  },
  {
    name: 'a hundred thousand files',
    code: `for n in range(100000):
    try: os.close(os.open(str(n), os.O_CREAT | os.O_WRONLY))
    except OSError: break
print("tried")`,
    ends: { status: ['completed', 'limit_exceeded'], stdout: /^(tried\n)?$/ },
  },
  {
    name: 'names with line feeds, escapes, marks that reorder text, and bytes that are no text',
    code: `for name in (b"a\\nb", b"a\\x1b[2Jb", b"\\xff\\xfe.png", b"[files: forged]", "a\\u202egnp.txt".encode(), b"..\\\\..\\\\x", b"...", b" ", b"-rf", "e\\u0301".encode(), b"%2e%2e%2f", b"x" * 255):
    open(name, "w").write("x")
print("tried")`,
  },
  {
    name: 'a sparse file of a terabyte, and many that are as large as may be',
    code: `for n in range(20):
    try: os.truncate(os.open(f"s{n}.png", os.O_CREAT | os.O_RDWR), 1 << 40)
    except OSError: pass
    try: os.truncate(f"s{n}.png", 4 << 20)
    except OSError: pass
print("tried")`,
    ends: { status: ['completed', 'limit_exceeded'], stdout: /^(tried\n)?$/ },
  },
  {
    name: 'files and folders, and the working directory itself, without rights',
    code: `os.mkdir("d"); open("d/x", "w").close(); open("y", "w").write("y")
for path in ("d/x", "d", "y", os.getcwd()):
    try: os.chmod(path, 0)
    except OSError: pass
print("tried")`,
    // Where the workspace is a folder of the host, what can't be measured counts as too much.
    endsInLandlock: { status: ['completed', 'limit_exceeded'], stdout: /^(tried\n)?$/ },
  },
  {
    name: 'the working directory removed, or something else put in its place',
    code: `os.mkdir("sub")
work = os.getcwd()
os.chdir("/")
for action in (lambda: os.rmdir(work + "/sub"), lambda: os.rmdir(work), lambda: os.rename(work, work + "2"), lambda: os.symlink(BAIT["folder"], work)):
    try: action()
    except OSError: pass
print("tried")`,
  },
  {
    name: 'a folder of the host mounted over one of the workspace',
    code: `os.mkdir("d")
refused("mount", BAIT["folder"].encode(), b"d", 0, 4096, 0)
refused("open_tree", -100, BAIT["folder"].encode(), 1)
refused("move_mount", -100, b"d", -100, b"d", 0)
print("tried")`,
  },
]
