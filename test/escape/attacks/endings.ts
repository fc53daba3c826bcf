import { type Attack, type Ending, LANDLOCK, NAMESPACES } from '../support/attack.js'

const TIMED_OUT: Ending = { status: 'timed_out', limit: 'wall' }
const crashed = (signal: string): Ending => ({ status: 'crashed', signal, stdout: '' })
const SLEEP = 'time.sleep(20)'
/** Short of the CPU limit, so that the two can't be taken for one another. */
const WALL_MS = 350
/** In which a machine that is busy with other things, too, has given a sandbox its CPU time. */
const CPU_WALL_MS = 20_000

/** Processes, CPU time and output beyond their limits, and ends that should be named as something else. */
export const endings: readonly Attack[] = [
  {
    name: 'a fork bomb',
    tiers: NAMESPACES,
    code: `for _ in range(8):
    try: os.fork()
    except OSError: pass
time.sleep(0.2)
print("tried") if os.getpid() == 2 else os._exit(0)`,
    ends: { status: ['completed', 'failed'], limit: 'processes' },
  },
  {
    name: 'a fork bomb that goes on for ever',
    tiers: NAMESPACES,
    code: `while True:
    try: os.fork()
    except OSError: pass`,
    ends: { status: ['timed_out', 'limit_exceeded'], limit: ['wall', 'cpu'] },
    wallMs: WALL_MS,
  },
  {
    name: 'more processes than there may be',
    tiers: NAMESPACES,
    code: `count = 0
try:
    for count in range(60):
        if os.fork() == 0: time.sleep(3); os._exit(0)
    escaped(count)
except OSError:
    time.sleep(0.1)
    print("tried")`,
    ends: { status: 'completed', limit: 'processes' },
  },
  {
    name: 'more threads than there may be',
    code: `import threading
try:
    for count in range(60): threading.Thread(target=time.sleep, args=(1,), daemon=True).start()
    time.sleep(0.3)
    escaped(count)
except RuntimeError:
    time.sleep(0.1)
    print("tried")`,
    ends: { status: ['completed', 'limit_exceeded'], limit: 'processes', stdout: /^(tried\n)?$/ },
  },
  {
    name: 'threads made by clone itself, which nobody counts in Python',
    code: `import _thread
count = 0
try:
    for count in range(200): _thread.start_new_thread(time.sleep, (1,))
    time.sleep(0.3)
    escaped(count)
except RuntimeError:
    time.sleep(0.1)
    print("tried")`,
    // An error that the code lived with, and that none of what starts processes in the library has seen, has no name.
    ends: { status: ['completed', 'limit_exceeded'], limit: ['processes', null], stdout: /^(tried\n)?$/ },
  },
  {
    name: 'CPU time of one process',
    code: 'while True: pass',
    ends: { status: 'limit_exceeded', limit: 'cpu' },
    wallMs: CPU_WALL_MS,
  },
  {
    name: 'CPU time of many processes, each within the limit',
    tiers: NAMESPACES,
    code: 'for _ in range(5):\n    if os.fork() == 0: break\nwhile True: pass',
    ends: { status: 'limit_exceeded', limit: 'cpu' },
    wallMs: CPU_WALL_MS,
  },
  {
    name: 'CPU time of processes that have ended',
    tiers: NAMESPACES,
    code: `while True:
    if os.fork() == 0:
        end = time.process_time() + 0.15
        while time.process_time() < end: pass
        os._exit(0)
    os.wait()`,
    ends: { status: 'limit_exceeded', limit: 'cpu' },
    wallMs: CPU_WALL_MS,
  },
  {
    name: 'CPU time of orphans that have ended',
    tiers: NAMESPACES,
    // On a busy machine so many live at once that no more can be made: then it waits for some to end.
    code: `while True:
    try:
        if os.fork() == 0:
            try:
                if os.fork() == 0:
                    end = time.process_time() + 0.15
                    while time.process_time() < end: pass
            finally: os._exit(0)
        os.wait()
    except BlockingIOError: pass
    time.sleep(0.1)`,
    ends: { status: 'limit_exceeded', limit: 'cpu' },
    wallMs: CPU_WALL_MS,
  },
  {
    name: 'CPU time in threads',
    code: `import threading, hashlib
def burn():
    while True: hashlib.pbkdf2_hmac("sha256", b"x", b"y", 100000)
for _ in range(4): threading.Thread(target=burn).start()`,
    ends: { status: 'limit_exceeded', limit: 'cpu' },
    wallMs: CPU_WALL_MS,
  },
  { name: 'sleep past the wall limit', code: SLEEP, ends: TIMED_OUT, wallMs: WALL_MS },
  {
    name: 'deaf to every signal and exception',
    code: `for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}: signal.signal(number, signal.SIG_IGN)
while True:
    try: time.sleep(20)
    except BaseException: pass`,
    ends: TIMED_OUT,
    wallMs: WALL_MS,
  },
  { name: 'SIGSTOP to oneself', code: 'os.kill(os.getpid(), signal.SIGSTOP)', ends: TIMED_OUT, wallMs: WALL_MS },
  {
    name: 'a C call that holds the lock',
    code: 'ctypes.PyDLL(None).sleep(20)',
    ends: TIMED_OUT,
    wallMs: WALL_MS,
  },
  {
    name: 'a thread that is never over, after the end',
    code: `import threading\nthreading.Thread(target=time.sleep, args=(20,)).start()`,
    ends: TIMED_OUT,
    wallMs: WALL_MS,
  },
  {
    name: 'a child in a session of its own, stopped, holding the output',
    tiers: NAMESPACES,
    code: `if os.fork() == 0:
    os.setsid()
    os.kill(os.getpid(), signal.SIGSTOP)
print("tried")`,
  },
  {
    name: 'an orphan, twice forked, deaf, that goes on writing',
    tiers: NAMESPACES,
    code: `if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        for number in set(signal.Signals) - {signal.SIGKILL, signal.SIGSTOP}: signal.signal(number, signal.SIG_IGN)
        while True: os.write(2, b"x"); time.sleep(0.01)
    os._exit(0)
os.wait()
print("tried")`,
  },
  {
    name: 'children that outlive a crash',
    tiers: NAMESPACES,
    code: `for _ in range(4):
    if os.fork() == 0: time.sleep(20)
os.kill(os.getpid(), signal.SIGSEGV)`,
    ends: crashed('SIGSEGV'),
  },
  {
    name: 'children that outlive the wall limit',
    tiers: NAMESPACES,
    code: `for _ in range(4):
    if os.fork() == 0: os.setsid(); time.sleep(20)
${SLEEP}`,
    ends: TIMED_OUT,
    wallMs: WALL_MS,
  },
  {
    name: 'a daemon of another program',
    tiers: NAMESPACES,
    code: `import subprocess
subprocess.Popen(["/bin/sh", "-c", "trap '' TERM HUP; sleep 20; : " + BAIT["mark"]], start_new_session=True, stdin=subprocess.DEVNULL)
print("tried")`,
  },
  {
    name: 'zombies that nobody waits for',
    tiers: NAMESPACES,
    code: `for _ in range(10):
    if os.fork() == 0: os._exit(0)
time.sleep(0.1)
print("tried")`,
    ends: { status: 'completed' },
  },
  {
    name: 'the end of the code while its children live on with the output',
    tiers: NAMESPACES,
    code: 'if os.fork() == 0:\n    time.sleep(20)\nprint("tried")\nos._exit(0)',
  },
  {
    name: 'a flood of output',
    code: 'block = b"x" * 65536\nfor _ in range(400): os.write(1, block)',
    ends: { status: 'completed', stdout: /^x/ },
  },
  {
    name: 'a flood of output that never ends',
    code: 'block = b"x" * 65536\nwhile True: os.write(1, block); os.write(2, block)',
    ends: { status: ['timed_out', 'limit_exceeded'], limit: ['wall', 'cpu'], stdout: /^x/ },
    wallMs: WALL_MS,
  },
  {
    name: 'output of bytes that are no text',
    code: 'os.write(1, bytes(range(256)) * 40 + b"\\xff\\xfe\\xf0\\x9f")',
    ends: { status: 'completed', stdout: /�/ },
  },
  {
    name: 'end by os._exit with 0 in the middle of an exception',
    code: 'try: 1/0\nfinally: os._exit(0)',
    ends: { status: 'completed', stdout: '' },
  },
  { name: 'exit codes beyond a byte', code: 'sys.exit(256)', ends: { status: 'completed', stdout: '' } },
  {
    name: 'SIGKILL to oneself, as if a limit had done it',
    code: 'os.kill(os.getpid(), signal.SIGKILL)',
    ends: crashed('SIGKILL'),
  },
  {
    name: 'SIGXCPU to oneself, as if a limit had done it',
    code: 'os.kill(os.getpid(), signal.SIGXCPU)',
    ends: crashed('SIGXCPU'),
  },
  {
    name: 'SIGXFSZ to oneself, as if a limit had done it',
    code: 'signal.signal(signal.SIGXFSZ, signal.SIG_DFL)\nos.kill(os.getpid(), signal.SIGXFSZ)',
    ends: crashed('SIGXFSZ'),
  },
  {
    name: 'SIGINT to oneself, as if it had been cancelled',
    code: 'signal.signal(signal.SIGINT, signal.SIG_DFL)\nos.kill(os.getpid(), signal.SIGINT)',
    ends: crashed('SIGINT'),
  },
  {
    name: 'SIGSYS, SIGILL, SIGBUS: a core of the memory',
    code: 'os.kill(os.getpid(), signal.SIGBUS)',
    ends: crashed('SIGBUS'),
  },
  { name: 'abort: a core in the workspace', code: 'os.abort()', ends: crashed('SIGABRT') },
  {
    name: 'a MemoryError that is none',
    code: 'raise MemoryError',
    ends: { status: 'failed', limit: null, stdout: '' },
  },
  {
    name: 'a TimeoutError that is none',
    code: 'raise TimeoutError("timed out after 60 s")',
    ends: { status: 'failed', limit: null, stdout: '' },
  },
  {
    name: 'a warden slowed down by a folder of many files and a long list of mappings',
    code: `import mmap
held = []
for n in range(150): open(str(n), "w").close()
area = mmap.mmap(-1, 8000 * 4096)
address = ctypes.addressof(ctypes.c_char.from_buffer(area))
for n in range(0, 8000, 2): raw(NR["mprotect"], address + n * 4096, 4096, 1)
${SLEEP}`,
    ends: TIMED_OUT,
    wallMs: WALL_MS,
  },
  {
    name: 'everything taken away that the end of the run needs',
    code: `import gc
os._exit = os.write = os.getpid = os.kill = None
gc.collect = None
sys.modules.clear()
sys.stdout.write("tried\\n")`,
  },
  {
    name: 'a run that outlives its warden’s death signal',
    tiers: LANDLOCK,
    code: 'refused("prctl", 1, 0, 0, 0, 0)\nrefused("prctl", 1, 15, 0, 0, 0)\nprint("tried")',
  },
]
