import { type Attack, LANDLOCK, NAMESPACES } from '../support/attack.js'

const FOLDERS =
  '(".", os.path.expanduser("~"), "/tmp", "/var/tmp", "/dev/shm", "/run", "/run/lock", "/work", "/code", "/home/sandbox", "..", "../tmp", "../code")'

const LEAVE = `for folder in ${FOLDERS}:
    try: open(folder + "/left-5521", "w").write("of the first")
    except OSError: pass
print("there")
`

/** What one run leaves for the next, or two runs at the same time have of one another. */
export const leftovers: readonly Attack[] = [
  {
    name: 'files of the run before, in every folder that can be written',
    before: LEAVE,
    code: `for folder in ${FOLDERS}: attempt(lambda: open(folder + "/left-5521").read(), folder)\nprint("tried")`,
  },
  {
    name: 'files of a run at the same time, by name',
    beside: `${LEAVE}time.sleep(30)`,
    code: `for folder in ${FOLDERS}: attempt(lambda: open(folder + "/left-5521").read(), folder)\nprint("tried")`,
  },
  {
    name: 'the folders of other sandboxes, by number and by list',
    tiers: LANDLOCK,
    beside: `${LEAVE}time.sleep(30)`,
    code: `boxes = os.path.dirname(os.path.dirname(os.getcwd()))
own = int(os.path.basename(os.path.dirname(os.getcwd())))
attempt(lambda: os.listdir(boxes), "list")
for number in {*range(1, 40), *range(own - 20, own + 20)} - {own}:
    for name in ("", "/work", "/tmp", "/work/left-5521", "/code/main.py", "/home/sandbox"):
        attempt(lambda: os.close(os.open(f"{boxes}/{number}{name}", os.O_RDONLY)), number, name)
        attempt(lambda: os.close(os.open(f"{boxes}/{number}{name}/x", os.O_CREAT | os.O_WRONLY)), number, name)
print("tried")`,
  },
  {
    name: 'the code of another run',
    before: 'secret = "of the first"\nprint("there")',
    code: 'text = open(sys.argv[0]).read()\nattempt(lambda: os.close(-1) if \'secret = "of the first"\' + chr(10) not in text else None)\nprint("tried")',
  },
  {
    name: 'the processes of a run at the same time',
    tiers: NAMESPACES,
    beside: 'print("there")\ntime.sleep(30)',
    code: `for pid in range(3, 200):
    if pid != os.getpid(): attempt(lambda: os.kill(pid, 0), pid)
print("tried")`,
  },
  {
    name: 'modules, paths, environment and signals that the run before has changed',
    before: `import json, math, types
json.loads = lambda *_, **__: escaped("json")
math.sqrt = lambda _: escaped("math")
sys.modules["csv"] = types.ModuleType("csv")
sys.path.insert(0, "/tmp/poison")
os.environ["LEFT_BEHIND"] = "1"
signal.signal(signal.SIGUSR1, signal.SIG_IGN)
os.umask(0)
try: os.nice(3)
except OSError: pass
print("there")`,
    code: `import csv, json, math
json.loads("[1]"), math.sqrt(4)
if not hasattr(csv, "reader") or "/tmp/poison" in sys.path or "LEFT_BEHIND" in os.environ: escaped("modules")
if signal.getsignal(signal.SIGUSR1) != signal.SIG_DFL: escaped("signal")
if os.umask(0o22) == 0: escaped("umask")
print("tried")`,
  },
  {
    name: 'random numbers of the run before',
    before: 'import random\nopen("n", "w").write(str(random.random()))\nrandom.seed(5521)\nprint("there")',
    code: `import random
first = random.random()
random.seed(5521)
if first == random.random(): escaped("seed")
print("tried")`,
  },
  {
    name: 'a System V segment, semaphore, queue and a POSIX queue of the run before',
    before: `for name, arguments in (("shmget", (5521, 4096, 0o1666)), ("semget", (5521, 1, 0o1666)), ("msgget", (5521, 0o1666)), ("mq_open", (b"left-5521", 0o102, 0o666, 0))):
    raw(NR[name], *arguments)
print("there")`,
    code: `for name, arguments in (("shmget", (5521, 0, 0)), ("semget", (5521, 0, 0)), ("msgget", (5521, 0)), ("mq_open", (b"left-5521", 0, 0, 0))):
    succeeds(name, *arguments)
print("tried")`,
  },
  {
    name: 'a System V segment of a process outside',
    code: 'succeeds("shmget", BAIT["shm_key"], 0, 0)\nprint("tried")',
  },
  {
    name: 'the environment of the worker, in every block there is',
    code: `block = ctypes.POINTER(ctypes.c_char_p).in_dll(ctypes.CDLL(None), "environ")
values, i = [str(dict(os.environ)).encode()], 0
while block and block[i]:
    values.append(block[i])
    i += 1
try: values.append(open("/proc/self/environ", "rb").read())
except OSError: pass
if any(BAIT["canary"][::-1].encode() in value for value in values): escaped()
print("tried")`,
  },
]
