import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { appendFileSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, describe, expect, it, onTestFinished } from 'vitest'
import { faults, startBackend, statusOf, streamed, textOf } from './support/answers.js'
import { endPrograms, logLines, startWorkerProcess } from './support/worker-process.js'

afterEach(endPrograms)

const COUNTING = fileURLToPath(new URL('./support/counting-server.mjs', import.meta.url))
const EVERYTHING = fileURLToPath(
  new URL('../../node_modules/@modelcontextprotocol/server-everything/dist/index.js', import.meta.url),
)
const KEY = 'counting-server-key-1'

/** A folder, the file in it that tells which tools were called, and the environment of a worker that has them. */
function place() {
  const folder = mkdtempSync(path.join(tmpdir(), 'toolbox-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const file = path.join(folder, 'calls')
  // biome-ignore lint/suspicious/noTemplateCurlyInString: the configuration's own form of a reference to the environment
  const server = { command: process.execPath, args: [COUNTING, file], env: { SERVER_KEY: '${SERVER_KEY}' } }
  const env = {
    STATE_DIR: path.join(folder, 'state'),
    SERVER_KEY: KEY,
    TOOLS_CONFIG: JSON.stringify({ mcpServers: { counting: server } }),
  }
  const called = () => {
    try {
      return readFileSync(file, 'utf8').trimEnd().split('\n')
    } catch {
      return []
    }
  }
  return { env, called }
}

/** For a program that is started as a person would. */
const QUIET = { LOG_LEVEL: 'error', NO_COLOR: '1' }
const LOOK_TWICE = 'print(tools.counting.look(what="a"))\nprint(tools.counting.look(what="b"))\n'
/** No text of a tool's name: the person could not be asked before. */
const SEND_UNSEEN = 'print(tools["coun" + "ting"]["se" + "nd"](text="hello"))\n'

describe('code that calls tools', () => {
  it('has those of the sandbox and those of an MCP server, and the result tells which it called', async () => {
    const backend = await startBackend()
    const servers = { everything: { command: process.execPath, args: [EVERYTHING] } }
    const worker = await startWorkerProcess(backend, { TOOLS_CONFIG: JSON.stringify({ mcpServers: servers }) })
    const call = backend.pushCode(`from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor() as pool:
    sums = list(pool.map(lambda n: tools.everything.get_sum(a=n, b=1), range(8)))
tools.files.write_file(path="sums.txt", content="\\n".join(sums))
found = tools.files.search(pattern="is 5", path=".")
print(len(sums), found["matches"][0]["line"])
print(tools.shell.terminal(command="wc -l < sums.txt")["output"].strip())`)
    const answer = await backend.waitForAnswer(call.fcall_id, 40_000)
    expect(textOf(answer)).toContain('8 5\n7\n')
    expect(answer.provenance['tool_calls']).toHaveLength(11)
    expect(answer.provenance['tool_calls']).toContainEqual(
      expect.objectContaining({ tool: 'everything.get-sum', ok: true, args_preview: expect.stringContaining('"a":3') }),
    )
    expect(logLines(worker).filter(({ msg }) => msg === 'tool called')).toHaveLength(11)
    expect(backend.registrations.at(-1)?.description).toContain('everything')
    expect(faults(backend, [call.fcall_id])).toEqual([])
  })

  it('is shown to a person first where it names a tool that asks, and runs once after a yes', async () => {
    const { env, called } = place()
    const backend = await startBackend()
    await startWorkerProcess(backend, env)
    const call = backend.pushCode(`${LOOK_TWICE}print(tools.counting.send(text="hello"))`)
    await backend.waitFor(() => backend.confirmations.length > 0, 30_000)
    expect(backend.confirmations[0]?.explanation).toContain('letting it call counting.send')
    expect(called()).toEqual([])
    backend.confirm(call.fcall_id, true)
    const answer = await backend.waitForAnswer(call.fcall_id, 30_000)
    expect(textOf(answer)).toBe('look 1\nlook 2\nsend 3\n')
    expect(called()).toEqual(['look {"what":"a"}', 'look {"what":"b"}', 'send {"text":"hello"}'])
  })

  it('that calls such a tool unseen is asked for then, and repeats nothing after a yes, also in another life', async () => {
    const { env, called } = place()
    const backend = await startBackend()
    const first = await startWorkerProcess(backend, env)
    const call = backend.pushCode(LOOK_TWICE + SEND_UNSEEN)
    await backend.waitFor(() => backend.confirmations.length > 0, 30_000)
    expect(called()).toEqual(['look {"what":"a"}', 'look {"what":"b"}'])
    first.child.kill('SIGTERM')
    await first.exited
    await startWorkerProcess(backend, env)
    backend.confirm(call.fcall_id, true)
    const answer = await backend.waitForAnswer(call.fcall_id, 30_000)
    expect(textOf(answer)).toBe('look 1\nlook 2\nsend 1\n')
    expect(streamed(backend, call.fcall_id)).toBe('look 1\nlook 2\nsend 1\n')
    expect(called().map(line => line.split(' ')[0])).toEqual(['look', 'look', 'send'])
    expect(answer.provenance['tool_calls']).toHaveLength(3)
    expect(backend.confirmations).toHaveLength(1)
  })

  it('is ended and asked for also where it catches what tells it so, and shows no secret', async () => {
    const { env, called } = place()
    const backend = await startBackend()
    await startWorkerProcess(backend, env)
    const call = backend.pushCode(`import time
key = "${KEY}"
while True:
    try:
        print(tools["coun" + "ting"]["se" + "nd"](text="hello"))
        break
    except BaseException as error:
        print(type(error).__name__, flush=True)
        time.sleep(0.1)
`)
    const started = performance.now()
    await backend.waitFor(() => backend.confirmations.length > 0, 45_000)
    expect(performance.now() - started).toBeLessThan(45_000) // its wall time is 60 s
    expect(backend.confirmations[0]?.explanation).toContain('letting it call counting.send')
    expect(backend.confirmations[0]?.command).toContain('key = "[redacted]"')
    expect(called()).toEqual([])
    backend.confirm(call.fcall_id, true)
    expect(textOf(await backend.waitForAnswer(call.fcall_id, 30_000))).toBe('send 1\n')
    expect(streamed(backend, call.fcall_id)).toBe('send 1\n')
  })

  it('that then does something else is ended before it does it', async () => {
    const { env, called } = place()
    const backend = await startBackend()
    await startWorkerProcess(backend, env)
    const call = backend.pushCode(
      `import random\nprint(tools.counting.look(what=str(random.random())))\n${SEND_UNSEEN}`,
    )
    await backend.waitFor(() => backend.confirmations.length > 0, 30_000)
    backend.confirm(call.fcall_id, true)
    const answer = await backend.waitForAnswer(call.fcall_id, 30_000)
    expect(statusOf(answer)).toBe('interrupted')
    expect(textOf(answer)).toContain('tool calls made before the end: counting.look ok')
    expect(called()).toHaveLength(1)
  })

  it('and is cut off by the end of the worker is answered with what it had called', async () => {
    const { env, called } = place()
    const backend = await startBackend()
    const first = await startWorkerProcess(backend, env)
    const call = backend.pushCode(`${LOOK_TWICE}import time\nprint("now", flush=True)\ntime.sleep(60)`)
    await backend.waitFor(() => streamed(backend, call.fcall_id).includes('now'), 30_000)
    first.child.kill('SIGKILL')
    await first.exited
    await startWorkerProcess(backend, env)
    const answer = await backend.waitForAnswer(call.fcall_id, 30_000)
    expect(statusOf(answer)).toBe('interrupted')
    expect(textOf(answer)).toContain('[tool calls made before the end: counting.look ok, counting.look ok]')
    expect(answer.provenance['tool_calls']).toHaveLength(2)
    expect(called()).toHaveLength(2)
  })

  /** The worker is killed when it is written down that a person was asked; the next one finds the file of what was called. */
  async function killedWhileAsking() {
    const { env, called } = place()
    const backend = await startBackend()
    const first = await startWorkerProcess(backend, env)
    const call = backend.pushCode(LOOK_TWICE + SEND_UNSEEN)
    const read = (folder: string) => {
      const names = readdirSync(path.join(env.STATE_DIR, folder)).filter(name => name.endsWith('.json'))
      return names.map(name => path.join(env.STATE_DIR, folder, name))
    }
    await backend.waitFor(() => read('calls').some(file => readFileSync(file, 'utf8').includes('"asked"')), 30_000)
    first.child.kill('SIGKILL')
    await first.exited
    const [steps = ''] = read('tools')
    return { env, backend, call, called, steps }
  }
  const BOTH = '[tool calls made before the end: counting.look ok, counting.look ok]'

  it('and is declined after kill -9 is not said not to have run', async () => {
    const { env, backend, call, called } = await killedWhileAsking()
    await startWorkerProcess(backend, env)
    backend.confirm(call.fcall_id, false)
    const answer = await backend.waitForAnswer(call.fcall_id, 30_000)
    expect([statusOf(answer), answer.provenance['started'], called().length]).toEqual(['declined', true, 2])
    expect(textOf(answer)).toContain(BOTH)
    expect(textOf(answer)).not.toMatch(/not run|safe to retry/)
  })

  it('and is approved where the record of its calls is damaged calls nothing again, and has the rest in its ledger', async () => {
    const { env, backend, call, called, steps } = await killedWhileAsking()
    appendFileSync(steps, '{"step":"called","n":2,"to\n')
    await startWorkerProcess(backend, env)
    backend.confirm(call.fcall_id, true)
    const answer = await backend.waitForAnswer(call.fcall_id, 30_000)
    expect([statusOf(answer), called().length]).toEqual(['interrupted', 2])
    expect(textOf(answer)).toContain(BOTH)
    expect(answer.provenance['tool_calls']).toHaveLength(2)
  })

  it('and is cancelled in the middle of one is answered with it', async () => {
    const { env, called } = place()
    const backend = await startBackend()
    const worker = await startWorkerProcess(backend, env)
    const call = backend.pushCode(`${LOOK_TWICE}tools.counting.hang()`)
    await backend.waitFor(() => called().length === 3, 30_000)
    worker.child.kill('SIGTERM')
    await backend.waitFor(() => logLines(worker).some(({ msg }) => msg === 'signal received'), 10_000)
    worker.child.kill('SIGTERM')
    const answer = await backend.waitForAnswer(call.fcall_id, 30_000)
    expect(statusOf(answer)).toBe('interrupted')
    expect(textOf(answer)).toContain('counting.look ok, counting.look ok, counting.hang failed]')
    await worker.exited
  })

  it('never sees the key of a server, and nobody else does', async () => {
    const { env } = place()
    const backend = await startBackend()
    const worker = await startWorkerProcess(backend, { ...env, LOG_LEVEL: 'trace' })
    const call = backend.pushCode(
      'import os\nprint(dict(os.environ))\nkey = tools.counting.key()\nprint(key)\nprint("-".join(key))',
    )
    const answer = await backend.waitForAnswer(call.fcall_id, 30_000)
    expect(textOf(answer)).toContain('the key is [')
    worker.child.kill('SIGTERM')
    await worker.exited
    for (const text of [JSON.stringify(answer), streamed(backend, call.fcall_id), worker.stdout(), worker.stderr()]) {
      expect(text).not.toContain(KEY)
      expect(text).not.toContain([...KEY].join('-'))
    }
  })

  it('of the README runs as it stands there, against a server from npm, and prints what it says', async () => {
    const root = fileURLToPath(new URL('../..', import.meta.url))
    const readme = readFileSync(path.join(root, 'README.md'), 'utf8')
    const section = readme.slice(readme.indexOf('## Tools for the code'), readme.indexOf('## Configuration'))
    const [command = '', shown = ''] = [...section.matchAll(/```(?:sh|text)\n(.*?)```/gs)].map(match => match[1])
    expect(command).toContain('node dist/main.js exec -')
    // A bash whose standard input is a socket, as here, may think that it was started from afar, and read its start-up files.
    const child = spawn('bash', ['--norc', '-euc', command], {
      cwd: root,
      env: { ...process.env, ...QUIET },
    })
    const output = { stdout: '', stderr: '' }
    child.stdout.setEncoding('utf8').on('data', text => {
      output.stdout += text
    })
    child.stderr.setEncoding('utf8').on('data', text => {
      output.stderr += text
    })
    const [code] = await once(child, 'close')
    // Facts about the run are on standard error, behind what it printed; what it took differs each time.
    const withoutFigures = (text: string) => text.replace(/(?<=\[completed in ).*(?=, \d+ tool calls)/, '…')
    expect([code, withoutFigures(output.stdout + output.stderr)]).toEqual([0, withoutFigures(shown)])
  }, 120_000)

  it('has none, and is not told of any, where the configuration allows none', async () => {
    const backend = await startBackend()
    await startWorkerProcess(backend, { TOOLS_ALLOW: '' })
    const call = backend.pushCode('tools')
    expect(textOf(await backend.waitForAnswer(call.fcall_id, 30_000))).toContain(
      "NameError: name 'tools' is not defined",
    )
    expect(backend.registrations.at(-1)?.description).not.toContain('tools.')
  })
})
