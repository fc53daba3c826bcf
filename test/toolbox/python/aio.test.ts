import { describe, expect, it } from 'vitest'
import { pythons } from '../../sandbox/seccomp/run.js'
import { printed, runCode } from './support/run-code.js'

describe.each(pythons())('tools.aio, %s', python => {
  it('runs 200 calls in parallel with one more thread', async () => {
    const code = `
import asyncio, threading, time
async def main():
    await tools.aio.test.none()
    started = time.monotonic()
    got = await asyncio.gather(*[tools.aio.test.slow(seconds=1, value=n) for n in range(200)])
    assert got == list(range(200)) and threading.active_count() == 2, threading.active_count()
    return time.monotonic() - started
took = asyncio.run(main())
async def again():
    return await asyncio.gather(tools.aio.call("test", "echo", {"value": 1}), tools.aio.call_tool("test", "echo", value=2),
        tools.aio.ls("tools/"), tools.aio.read("tools/__index__.md"), tools.aio.search("x"), tools.aio["google-calendar"]["class"]())
print(asyncio.run(again())[:2], threading.active_count())
assert tools.test.echo(value=3) == 3
print(took)`
    const [first, took] = (await printed(code, { python })).trim().split('\n')
    expect(first).toBe('[1, 2] 2')
    expect(Number(took)).toBeLessThan(20)
  })

  it('works at the top level, beside threads, and with errors as they come', async () => {
    const code = `
import asyncio, threading
from tools import ToolError, aio
got = []
threads = [threading.Thread(target=lambda n=n: got.append(tools.test.slow(seconds=0.1, value=n))) for n in range(10)]
[one.start() for one in threads]
answers = await asyncio.gather(aio.test.fail(), aio.test.echo(value={1}), aio.web.web_extract(urls=["u"]), aio.test.big(), return_exceptions=True)
[one.join() for one in threads]
assert sorted(got) == list(range(10))
assert [type(one).__name__ for one in answers] == ["ToolError", "ToolArgumentError", "dict", "str"], answers
try: await aio.test.fail()
except ToolError as error: print(error.tool, error)
try: aio.test.fial
except AttributeError as error: print(error)`
    expect(await printed(code, { python })).toBe(
      "test.fail the disk is on fire\nthere is no tool 'fial' in tools.test; did you mean tools.test.fail?\n",
    )
  })

  it('leaves nothing hanging when tasks are cancelled', async () => {
    const code = `
import asyncio
async def main():
    tasks = [asyncio.create_task(tools.aio.test.slow(seconds=60)) for _ in range(20)]
    await tools.aio.test.none()
    for task in tasks: task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    try: await asyncio.wait_for(tools.aio.test.slow(seconds=60), 0.2)
    except asyncio.TimeoutError: print("late")
    return await tools.aio.test.echo(value=5)
print(asyncio.run(main()))
for one in range(3): print(tools.test.echo(value=one))`
    const started = Date.now()
    expect(await printed(code, { python })).toBe('late\n5\n0\n1\n2\n')
    expect(Date.now() - started).toBeLessThan(20_000)
  })

  it('runs tools of the sandbox too', async () => {
    const code = `
import asyncio
async def main():
    return await asyncio.gather(tools.aio.files.write_file("a", "x"), *[tools.aio.shell.terminal("sleep 0.5; echo $PPID") for _ in range(4)])
print([one.get("exit_code", one.get("status")) for one in asyncio.run(main())])`
    const ended = await runCode(code, { python })
    expect(ended.stdout).toBe("['ok', 0, 0, 0, 0]\n")
    expect(ended.requests.filter(one => one.op === 'done')).toHaveLength(5)
  })
})
