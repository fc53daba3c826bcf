import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { GUESTS, under } from '../../sandbox/seccomp/run.js'

const SOURCES = fileURLToPath(new URL('../../../src/sandbox/python/', import.meta.url))

/** The library with a server of its own in the same process: what its calls ask of the kernel is what matters here. */
const BEFORE = `
import json, os, struct, sys, tempfile, threading, types
package = types.ModuleType("_sandbox"); package.__path__ = ["${SOURCES}core", "${SOURCES}"]
sys.modules["_sandbox"] = package
from _sandbox import frames
from _sandbox.toolbox import install
`
const CODE = `
inward, outward = os.pipe(), os.pipe()
def serve():
    decoder = frames.Decoder()
    while True:
        for _, payload in decoder.feed(os.read(outward[0], 65536)):
            asked = json.loads(payload)
            if asked["op"] != "call": continue
            answer = {"id": asked["id"], "ok": True}
            answer |= {"value": asked["kw"]["value"]} if asked["category"] == "test" else {"local": True, "kw": asked["kw"]}
            data = frames.pack(frames.ANSWER, json.dumps(answer).encode())
            while data: data = data[os.write(inward[1], data):]
threading.Thread(target=serve, daemon=True).start()
work = tempfile.mkdtemp()
install.install(inward[0], outward[1], {"work": work, "progress": False})
import asyncio, tools
big = "x" * 300_000
assert tools.call("test", "echo", {"value": big}) == big
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(6) as pool:  # the server reads nothing while it writes: neither side may wait for the other for good
    assert list(pool.map(lambda n: tools.call("test", "echo", {"value": [n, big]}), range(30))) == [[n, big] for n in range(30)]
async def main(): return await asyncio.gather(*[tools.aio.call("test", "echo", {"value": n}) for n in range(50)])
assert asyncio.run(main()) == list(range(50))
os.chdir(work)
assert tools.call("files", "write_file", {"path": "a/b", "content": "c"})["bytes_written"] == 1
assert tools.call("files", "patch", {"path": "a/b", "old_string": "c", "new_string": "d"})["success"]
assert tools.call("files", "search", {"pattern": "d"})["total_count"] == 1
try: print(tools.call("shell", "terminal", {"command": "sleep 9 & echo hi; sleep 9", "timeout": 1})["exit_code"])
except tools.ToolError as error: print(error)
__import__("shutil").rmtree(work)
`

describe('the toolbox library under the filters of guests', () => {
  it.each(GUESTS)('%s: calls tools, and starts processes where these are allowed', async variant => {
    const ended = await under(variant, CODE, '/usr/bin/python3', BEFORE)
    expect(ended.stderr).toBe('')
    expect(ended.stdout).toMatch(
      variant === 'namespaces' ? /^124\n$/ : /^(124|no process can be started in this sandbox: .*)\n$/,
    )
  })
})
