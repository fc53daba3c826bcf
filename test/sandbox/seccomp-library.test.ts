import { describe, expect, it } from 'vitest'
import { GUESTS, pythons, SYSTEM_PYTHON, under } from './seccomp/run.js'

const FILES_THREADS_AND_LOOPS = `
import asyncio, concurrent.futures, ctypes, queue, sqlite3, tempfile, threading, os, time, zoneinfo, datetime, decimal, mmap, select, signal
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "a.db")
    base = sqlite3.connect(path)
    base.execute("pragma journal_mode=wal")
    base.execute("create table t(x)")
    base.executemany("insert into t values (?)", [(n,) for n in range(100)])
    base.commit()
    print("sqlite", base.execute("select sum(x) from t").fetchone()[0])
    base.close()
    os.rename(path, path + "2")
    print("listed", [name for name in os.listdir(folder) if name.endswith("db2")])
    with open(os.path.join(folder, "m"), "w+b") as file:
        file.truncate(8192)
        with mmap.mmap(file.fileno(), 8192) as block:
            block[0:4] = b"abcd"
            block.flush()
        print("mapped", os.pread(file.fileno(), 4, 0))
with concurrent.futures.ThreadPoolExecutor(8) as pool:
    print("threads", sum(pool.map(lambda n: n * n, range(50))))
async def main():
    async def nap(n):
        await asyncio.sleep(0.01)
        return n
    naps = sum(await asyncio.gather(*[nap(n) for n in range(5)]))
    return naps, await asyncio.to_thread(lambda: "from a thread")
print("asyncio", asyncio.run(main()))
print("zone", datetime.datetime(2024, 7, 1, tzinfo=zoneinfo.ZoneInfo("Europe/Paris")).utcoffset())
got = []
signal.signal(signal.SIGALRM, lambda *_: got.append("alarm"))
signal.setitimer(signal.ITIMER_REAL, 0.02)
time.sleep(0.1)
print("timer", got)
callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)(lambda n: n + 1)  # machine code made at run time
print("callback", callback(41))
`
const FILES_THREADS_AND_LOOPS_PRINT = `sqlite 4950
listed ['a.db2']
mapped b'abcd'
threads 40425
asyncio (10, 'from a thread')
zone 2:00:00
timer ['alarm']
callback 42
`

const CHILDREN = `
import concurrent.futures, multiprocessing, multiprocessing.shared_memory, subprocess, sys, os, socket, threading, asyncio
if __name__ == "__main__":
    print("run", subprocess.run(["/bin/sh", "-c", "echo $((6 * 7)) | cat"], capture_output=True, text=True).stdout.strip())
    print("session", subprocess.run([sys.executable, "-c", "print(1)"], start_new_session=True, capture_output=True).stdout)
    print("spawned", os.waitpid(os.posix_spawn("/bin/true", ["true"], {}), 0)[1])
    fork = multiprocessing.get_context("fork")
    with concurrent.futures.ProcessPoolExecutor(2, mp_context=fork) as pool:
        print("fork", list(pool.map(abs, [-1, -2])))
    for method in ("spawn", "forkserver"):
        with multiprocessing.get_context(method).Pool(2) as pool:
            print(method, pool.map(abs, [-3, -4]))
    lock, queue = fork.Lock(), fork.Queue()
    def put():
        with lock:
            queue.put("through")
    child = fork.Process(target=put)
    child.start()
    print("queue", queue.get(timeout=5))
    child.join()
    shared = multiprocessing.shared_memory.SharedMemory(create=True, size=100)
    shared.buf[0] = 7
    print("shared", shared.buf[0])
    shared.close()
    shared.unlink()
    async def echo():
        async def handle(reader, writer):
            writer.write(await reader.readline())
            await writer.drain()
            writer.close()
        server = await asyncio.start_server(handle, "localhost", 0)
        reader, writer = await asyncio.open_connection("localhost", server.sockets[0].getsockname()[1])
        writer.write(b"line\\n")
        line = await reader.readline()
        writer.close()
        server.close()
        child = await asyncio.create_subprocess_exec("/bin/echo", "child", stdout=asyncio.subprocess.PIPE)
        return line, (await child.communicate())[0]
    print("asyncio", asyncio.run(echo()))
`
const CHILDREN_PRINT = `run 42
session b'1\\n'
spawned 0
fork [1, 2]
spawn [3, 4]
forkserver [3, 4]
queue through
shared 7
asyncio (b'line\\n', b'child\\n')
`

const NUMBERS = `
import importlib.util, tempfile, os
import numpy as np
a = np.random.default_rng(0).random((400, 400))
print("solved", bool(np.allclose(a @ np.linalg.inv(a), np.eye(400))))
import pandas as pd
frame = pd.DataFrame({"k": list("abab"), "v": range(4)})
print("grouped", frame.groupby("k").v.sum().to_dict())
with tempfile.TemporaryDirectory() as folder:
    frame.to_csv(os.path.join(folder, "a.csv"))
    print("read", len(pd.read_csv(os.path.join(folder, "a.csv"))))
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    plt.plot([1, 2])
    plt.savefig(os.path.join(folder, "a.png"))
    print("drawn", os.path.getsize(os.path.join(folder, "a.png")) > 1000)
import scipy.fft, scipy.linalg, scipy.optimize
scipy.fft.fft(np.ones(4096), workers=2)
assert abs(scipy.optimize.brentq(lambda x: x * x - 2, 0, 2) ** 2 - 2) < 1e-6
assert scipy.linalg.svdvals(a)[0] > 1
`
const NUMBERS_PRINT = "solved True\ngrouped {'a': 2, 'b': 4}\nread 4\ndrawn True\n"

const WARDEN = `
import json, os, select, signal, socket, struct, tempfile, time, selectors
print("proc", open("/proc/self/statm").read().count(" "))
for entry in list(os.scandir(folder_to_delete)):
    (os.rmdir if entry.is_dir(follow_symlinks=False) else os.unlink)(entry.path)
print("deleted", os.listdir(folder_to_delete), os.statvfs(folder_to_delete).f_bsize > 0)
here.setblocking(False)
selector = selectors.DefaultSelector()
selector.register(here, selectors.EVENT_READ)
there.sendall(b"frame")
print("selected", len(selector.select(1)), here.recv(100))
poll = select.poll()
poll.register(read_end, select.POLLIN)
os.write(write_end, b"x")
print("polled", poll.poll(1000)[0][1], os.read(read_end, 10))
socket.send_fds(there, [b"fd"], [read_end])
here.setblocking(True)
here.settimeout(1)
print("descriptor", socket.recv_fds(here, 10, 1)[1] != [])
pidfd = os.pidfd_open(child)
signal.pidfd_send_signal(pidfd, 0)
os.kill(child, signal.SIGKILL)
print("waited", os.wait4(child, 0)[1])
time.sleep(0.01)
print("memory", len(bytearray(50 << 20)) >> 20, json.loads("[1]"), signal.raise_signal(signal.SIGWINCH))
def attempt(name, action):
    try:
        action()
        print("LEAK", name)
    except OSError as error:
        print(name, error.errno)
attempt("write", lambda: open(os.path.join(folder_to_delete, "x"), "w"))
attempt("append", lambda: os.open("/proc/self/comm", os.O_WRONLY))
attempt("fork", os.fork)
attempt("exec", lambda: os.execv("/bin/true", ["true"]))
attempt("socket", socket.socket)
attempt("chmod", lambda: os.chmod(folder_to_delete, 0o700))
`
// What a warden has opened and imported before it loads its filter.
const WARDEN_BEFORE = `
import os, socket, tempfile, select, selectors, json, signal, struct
folder_to_delete = tempfile.mkdtemp()
os.mkdir(folder_to_delete + "/d")
open(folder_to_delete + "/f", "w").close()
here, there = socket.socketpair()
read_end, write_end = os.pipe()
child = os.fork()
if child == 0:
    import time
    time.sleep(20)
    os._exit(0)
`
const WARDEN_PRINT = `proc 6
deleted [] True
selected 1 b'frame'
polled 1 b'x'
descriptor True
waited 9
memory 50 [1] None
write 1
append 1
fork 1
exec 38
socket 38
chmod 38
`

describe.each(pythons())('%s', python => {
  it.each(GUESTS)('has files, threads, databases, loops and timers under %s', async variant => {
    const ended = await under(variant, FILES_THREADS_AND_LOOPS, python)
    expect(ended).toMatchObject({ stdout: FILES_THREADS_AND_LOOPS_PRINT, stderr: '', code: 0 })
  })

  it('has child processes of every kind and a loopback network under namespaces', async () => {
    const ended = await under('namespaces', CHILDREN, python)
    expect(ended).toMatchObject({ stdout: CHILDREN_PRINT, stderr: '', code: 0 })
  })

  it('supervises under warden, and can do nothing else', async () => {
    const ended = await under('warden', WARDEN, python, WARDEN_BEFORE)
    expect(ended).toMatchObject({ stdout: WARDEN_PRINT, stderr: '', code: 0 })
  })
})

// Two seconds of computing: on a machine that is busy with other things, ten times as long.
it.each(GUESTS)(
  'numpy, pandas, matplotlib and scipy compute and draw under %s',
  async variant => {
    const ended = await under(variant, NUMBERS, SYSTEM_PYTHON, '', 110_000)
    expect(ended).toMatchObject({ stdout: NUMBERS_PRINT, stderr: '', code: 0 })
  },
  120_000,
)
