import type { ChildProcess } from 'node:child_process'
import { describe, expect, it } from 'vitest'
import { pythons } from '../../sandbox/seccomp/run.js'
import { printed, type Request, runCode } from './support/run-code.js'

const MANY = 20

describe.each(pythons())('requests over one pair of pipes, %s', python => {
  it('bring results exactly as they are', async () => {
    const code = `
big = "abc\\u2028é😀" * 330_000
assert tools.test.none() is None and tools.test.empty() == "" and tools.test.big() == big
for value in (0, -1.5e-300, 2**53, True, False, [], {}, [[], {"": [None]}], "\\0\\u2028\\u2029\\ufeff", {"from": {"a\\nb": [1, "😀"]}}):
    got = tools.test.echo(value=value)
    assert got == value and type(got) is type(value), (value, got)
assert tools.test.echo(value=big) == big
assert tools.test.half() == "\\ud83d"`
    await printed(code, { python })
  })

  it('run in parallel from threads, each with its own answer', async () => {
    const code = `
import threading, time
got, lock = {}, threading.Lock()
def work(n):
    for m in range(2):
        value = tools.test.slow(seconds=1, value=[n, m])
        with lock: got[n, m] = value
tools.test.none()
started = time.monotonic()
threads = [threading.Thread(target=work, args=(n,)) for n in range(${MANY})]
[one.start() for one in threads]
assert threading.active_count() == ${MANY + 1}
[one.join() for one in threads]
assert got == {(n, m): [n, m] for n in range(${MANY}) for m in range(2)}
print(time.monotonic() - started)`
    expect(Number(await printed(code, { python }))).toBeLessThan(10)
  })

  it('are written whole when many threads send more than the pipe holds', async () => {
    const code = `
from concurrent.futures import ThreadPoolExecutor
texts = [chr(97 + n) * 900_000 for n in range(8)]
with ThreadPoolExecutor(8) as pool:
    assert list(pool.map(lambda text: tools.test.echo(value=text), texts)) == texts
print("fine")`
    const ended = await runCode(code, {
      python,
      started: (_, line) => {
        line.pause()
        setTimeout(() => line.resume(), 1500)
      },
    })
    expect(ended).toMatchObject({ stdout: 'fine\n', stderr: '', exitCode: 0 })
    expect(new Set(ended.requests.map(one => one.id)).size).toBe(ended.requests.length)
  })

  it('go on after a signal has interrupted one that waits, reads or writes', async () => {
    const code = `
import signal, time
class Late(Exception): pass
def ring(*_): raise Late
signal.signal(signal.SIGALRM, ring)
tools.test.none()
late = 0
big = "x" * 1_000_000
for n in range(24):
    signal.setitimer(signal.ITIMER_REAL, 0.0005 + n * 0.001)
    try:
        tools.test.echo(value=big) if n % 2 else tools.test.big()
    except Late:
        late += 1
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
assert late > 3, late
for n in range(50): assert tools.test.echo(value=n) == n
assert tools.test.echo(value=big) == big
print("fine")`
    expect(await printed(code, { python })).toBe('fine\n')
  })

  it('are interrupted by KeyboardInterrupt', async () => {
    const code = `
try:
    tools.test.slow(seconds=60)
except KeyboardInterrupt:
    print("interrupted", tools.test.echo(value=7))`
    const answer = (request: Request) => {
      if (request['tool'] === 'slow') setTimeout(() => process.kill(pid, 'SIGINT'), 300)
      return undefined
    }
    let pid = 0
    const started = (child: ChildProcess) => {
      pid = child.pid ?? 0
    }
    const ended = await runCode(code, { python, answer, started })
    expect(ended).toMatchObject({ stdout: 'interrupted 7\n', exitCode: 0 })
  })

  it('wake threads that wait when the one that reads for them is interrupted', async () => {
    const code = `
import signal, threading
def ring(*_): raise TimeoutError  # an OSError, as pipes raise them too
signal.signal(signal.SIGALRM, ring)
got = []
def work(): got.append(tools.test.slow(seconds=0.6, value=1))
tools.test.none()
signal.setitimer(signal.ITIMER_REAL, 0.2)
try:
    threads = [threading.Thread(target=work) for _ in range(3)]
    threading.Timer(0.05, lambda: [one.start() for one in threads]).start()
    tools.test.slow(seconds=60)
except TimeoutError:
    [one.join() for one in threads]
print(got)`
    expect(await printed(code, { python })).toBe('[1, 1, 1]\n')
  })
})

describe('the ends of the pipes', () => {
  it('refuse calls from a forked process with words, and go on in the first', async () => {
    const code = `
import os, sys
tools.test.none()
if os.fork() == 0:
    try: tools.test.echo(value=1)
    except ToolError as error: print("child:", error)
    sys.exit()
os.wait()
print(tools.test.echo(value=2))`
    const stdout = await printed(`from tools import ToolError\n${code}`)
    expect(stdout).toMatch(
      /^child: tools can be called in the process that the code began in, not in a forked one.*\n2\n$/,
    )
  })

  it('say that the run is over, to all that wait and to later calls', async () => {
    const code = `
import asyncio, threading
from tools import ToolError
def work():
    try: tools.test.echo(value=1)
    except ToolError as error: said.append((str(error), error.kind))
said = []
tools.test.none()
threads = [threading.Thread(target=work) for _ in range(4)]
[one.start() for one in threads]
[one.join() for one in threads]
work()
async def main():
    for name in "ab":
        try: await tools.aio.test.echo()
        except ToolError as error: said.append((str(error), error.kind))
asyncio.run(main())
print(len(said), set(said))`
    let waiting = 0
    const ended = await runCode(code, {
      answer: (request, line) => {
        if (request['tool'] !== 'echo') return undefined
        waiting += 1
        if (waiting === 4) line.end()
        return null
      },
    })
    expect(ended.stderr).toBe('')
    expect(ended.stdout).toBe(
      "7 {('no more tool calls: the run is over, or the code has written to descriptor 4 what is no request', 'ended')}\n",
    )
  })

  it('are missed with words where the code has closed them', async () => {
    const code = `
import os
tools.test.none()
os.close(3)
os.open("/dev/zero", os.O_RDONLY)
try: tools.test.none()
except tools.ToolError as error: print(error)`
    expect(await printed(code)).toBe('the code has closed descriptors 3 and 4, over which tools are called\n')
  })

  it('leave the value of the last expression whole', async () => {
    const code = `
import threading
for _ in range(8): threading.Thread(target=lambda: tools.test.echo(value="x" * 300_000)).start()
tools.test.none()
"v" * 40_000`
    const ended = await runCode(code)
    expect(ended.value).toBe(`'${'v'.repeat(40_000)}'`)
    expect(ended.calls).toHaveLength(9)
  })

  it('survive answers that are none, or to nobody', async () => {
    const answer = (request: Request, line: { raw(text: string): void }) => {
      for (const junk of ['', '[]', '7', '{"id":"x"}', '{"id":0,"ok":true}', '{"id":999,"ok":true}', '\xff'])
        line.raw(junk)
      return request['tool'] === 'none' ? { ok: true, value: 5, id: request.id } : undefined
    }
    expect(await printed('print(tools.test.none())', { answer })).toBe('5\n')
  })

  it('refuse a request over 4 MiB before it is sent, and take one a little smaller', async () => {
    const code = `
try: tools.test.echo(value="x" * (4 << 20))
except tools.ToolArgumentError as error: print(error)
print(len(tools.test.echo(value="x" * ((4 << 20) - 200))))`
    const stdout = await printed(code)
    expect(stdout).toMatch(/the arguments are 4,194,\d+ bytes of JSON, and a call takes at most 4,194,304\n4194104\n/)
  })

  it('show no frame of the library in a traceback', async () => {
    const ended = await runCode('def f():\n    tools.test.fail()\nf()')
    expect(ended.stderr).not.toContain('<sandbox>')
    expect(ended.stderr).toMatch(/line 3, in <module>\n.*line 2, in f\n.*ToolError: the disk is on fire\n$/s)
    expect(ended.exitCode).toBe(1)
  })
})
