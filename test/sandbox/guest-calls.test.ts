import { describe, expect, it } from 'vitest'
import type { GuestCalls } from '../../src/sandbox/guest-calls.js'
import { sharedRoom } from './support/shared-room.js'

/** Code that speaks the frames itself: what a library does for others, and what an attacker would do. */
const WIRE = `
import os, struct
def send(data, kind=b"T"):
    data = struct.pack("<I", len(data)) + kind + data
    while data:
        data = data[os.write(4, data):]
def take(n):
    data = b""
    while len(data) < n:
        piece = os.read(3, n - len(data))
        if not piece:
            raise EOFError
        data += piece
    return data
def hear():
    head = take(5)
    return take(struct.unpack("<I", head[:4])[0])
`

function answering(answerOf: (request: Buffer) => Buffer | null, log: string[] = []): GuestCalls {
  return {
    options: { calls_max: 1 },
    async request(payload, answer) {
      log.push(payload.toString('latin1'))
      const data = answerOf(payload)
      if (data === null) return
      await answer(data)
      log.push('sent')
    },
    end: () => log.push('end'),
  }
}

describe.each(['namespaces', 'landlock'] as const)('requests from the code in the %s tier', tier => {
  const room = sharedRoom({ tier, slots: 2 })

  it('reach the worker in order, and so do the answers, byte by byte', async () => {
    const log: string[] = []
    const calls = answering(request => Buffer.concat([request, Buffer.from([0, 255, 10])]), log)
    const ran = await room().run(`${WIRE}\nfor n in range(3):\n    send(b"x%d" % n)\n    print(hear())\n"done"`, {
      calls,
    })
    expect(ran).toMatchObject({ status: 'completed', value: "'done'" })
    expect(ran.stdout.text).toBe("b'x0\\x00\\xff\\n'\nb'x1\\x00\\xff\\n'\nb'x2\\x00\\xff\\n'\n")
    expect(log.filter(line => line !== 'sent')).toEqual(['x0', 'x1', 'x2', 'end'])
  })

  it('may be large in both directions, and answered while others wait', async () => {
    const calls = answering(request => Buffer.alloc(5_000_000, request.subarray(0, 1)))
    const code = `${WIRE}
for n in range(2):
    send(bytes([65 + n]) * 3_000_000)
for n in range(2):
    data = hear()
    print(len(data), data == bytes([65 + n]) * len(data))`
    const ran = await room().run(code, { calls })
    expect(ran.stdout.text).toBe('5000000 True\n'.repeat(2))
  })

  it('leave nothing waiting in the worker when the code never reads the answers', async () => {
    const log: string[] = []
    const calls = answering(() => Buffer.alloc(4_000_000), log)
    const ran = await room().run(
      `${WIRE}\nfor _ in range(8):\n    send(b"x")\nimport time\ntime.sleep(0.3)\nprint("over")`,
      { calls },
    )
    expect(ran).toMatchObject({ status: 'completed', stdout: { text: 'over\n' } })
    await expect.poll(() => log.filter(line => line === 'sent').length).toBe(8)
    expect(log.filter(line => line === 'end').length).toBeGreaterThan(0)
  })

  it('go on when the code has closed the pipe of the answers', async () => {
    const calls = answering(() => Buffer.alloc(2_000_000))
    const ran = await room().run(`${WIRE}\nos.close(3)\nfor _ in range(5):\n    send(b"x")\nprint("fine")\n7`, {
      calls,
    })
    expect(ran).toMatchObject({ status: 'completed', value: '7' })
  })

  it('wait in the code, and not in the worker, when it asks without end and reads no answers', async () => {
    const log: string[] = []
    const code = `${WIRE}
import threading, time
def flood():
    global sent
    while True:
        os.write(4, (struct.pack("<I", 1) + b"Tx") * 500)
        sent += 500
sent = 0
threading.Thread(target=flood, daemon=True).start()
time.sleep(1)
print(sent)`
    const ran = await room().run(code, { calls: answering(() => Buffer.alloc(20_000), log) })
    expect(ran).toMatchObject({ status: 'completed' })
    const asked = log.filter(line => line === 'x').length
    expect(asked).toBeGreaterThan(200)
    expect(asked).toBeLessThan(2_000)
    expect(Number(ran.stdout.text)).toBeLessThan(50_000)
  })

  it('of many bytes wait too, while those before them are not done with', async () => {
    let bytes = 0
    const calls: GuestCalls = {
      options: { calls_max: 1 },
      request: payload => {
        bytes += payload.length
        return new Promise(() => {})
      },
      end: () => {},
    }
    const code = `${WIRE}
import threading, time
threading.Thread(target=lambda: [send(b"x" * 3_000_000) for _ in range(20)], daemon=True).start()
time.sleep(1)
print("on", flush=True)
os._exit(0)`
    expect(await room().run(code, { calls })).toMatchObject({ status: 'completed', stdout: { text: 'on\n' } })
    expect(bytes).toBe(6_000_000)
  })

  it('are all heard however many there are, as long as the answers are read', async () => {
    const log: string[] = []
    const code = `${WIRE}
for _ in range(20):
    for n in range(100):
        send(b"%d" % n)
    assert [int(hear()) for n in range(100)] == list(range(100))
print("all")`
    const ran = await room().run(code, { calls: answering(request => request, log) })
    expect(ran).toMatchObject({ status: 'completed', stdout: { text: 'all\n' } })
    expect(log.filter(line => line === 'sent').length).toBe(2_000)
  })

  it('that are no frames, or too large, end what is heard, and the code can tell and ends as it would', async () => {
    for (const bytes of [
      'b"\\xff" * 64',
      'struct.pack("<I", 5 << 20) + b"T" + b"x" * 100',
      'b"\\0\\0\\0\\0Z" * 300_000',
    ]) {
      const log: string[] = []
      const code = `${WIRE}
import threading
def write():
    try:
        os.write(4, ${bytes})
    except BrokenPipeError:
        print("closed")
writer = threading.Thread(target=write)
writer.start()
try:
    hear()
except EOFError:
    print("the end")
writer.join()
try:
    while True: send(b"x")
except BrokenPipeError:
    print("on")
7`
      const ran = await room().run(code, { calls: answering(() => null, log) })
      expect(ran).toMatchObject({ status: 'completed', stdout: { text: expect.stringMatching(/the end\n.*on\n$/s) } })
      expect(log.filter(line => line !== 'end')).toEqual([])
    }
  })

  it('are answered by the worker alone: nobody in the sandbox can write what the code reads', async () => {
    const code = `${WIRE}
import ctypes, errno, glob, socket, stat
assert stat.S_ISSOCK(os.fstat(3).st_mode)
forged = struct.pack("<I", 6) + b"Rforged"
def attempt(what):
    try:
        what()
        print("done")
    except OSError as error:
        print(errno.errorcode[error.errno], end=" ")
def through(path):
    attempt(lambda: os.write(os.open(path, os.O_WRONLY), forged))
for path in ("/proc/self/fd/3", "/proc/thread-self/fd/3", "/dev/fd/3", f"/proc/{os.getpid()}/fd/3", *glob.glob("/proc/1/fd/*")):
    through(path)
copy = os.dup(3)
attempt(lambda: os.fchmod(3, 0o666))
through(f"/proc/self/fd/{copy}")
attempt(lambda: os.write(3, forged))
attempt(lambda: os.write(copy, forged))
end = socket.socket(fileno=copy)
attempt(lambda: end.send(forged))
attempt(lambda: end.sendmsg([forged], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, struct.pack("i", 1))]))
attempt(lambda: end.sendto(forged, "/work/x"))
attempt(lambda: end.bind("x"))
attempt(lambda: end.listen())
attempt(lambda: end.connect("x"))
libc = ctypes.CDLL(None, use_errno=True)
for pid in (1, os.getppid()):
    process = libc.syscall(434, pid, 0)  # pidfd_open
    for fd in range(3, 40):
        assert libc.syscall(438, process, fd, 0) == -1  # pidfd_getfd
print()
send(b"asked")
print(hear(), os.get_blocking(3))
os.set_blocking(3, False)
try:
    print(os.read(3, 1))
except BlockingIOError:
    print("nothing")`
    const ran = await room().run(code, { calls: answering(request => request) })
    expect(ran).toMatchObject({ status: 'completed', stderr: { text: '' } })
    const [tried = '', ...rest] = ran.stdout.text.replaceAll('done\n', 'done ').split('\n')
    expect(rest).toEqual(["b'asked' True", 'nothing', ''])
    // A mode, and a name that nobody can connect to, are no way in.
    expect(tried.split(' ').filter(word => word === 'done').length).toBeLessThanOrEqual(2)
  })

  it('are not possible where a run has none', async () => {
    const ran = await room().run(`${WIRE}
try:
    os.read(3, 1)
except OSError as error:
    print(error.errno)
send(b"x")
print("unheard")`)
    expect(ran).toMatchObject({ status: 'completed', stdout: { text: '9\nunheard\n' } })
  })

  it('stand still with the rest of the code when it is cancelled or timed out while it waits', async () => {
    const log: string[] = []
    const ran = await room().run(`${WIRE}\nsend(b"x")\nhear()`, { calls: answering(() => null, log), wallMs: 500 })
    expect(ran).toMatchObject({ status: 'timed_out' })
    expect(log.slice(0, 2)).toEqual(['x', 'end'])
  })
})
