import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { openSandbox } from '../../src/sandbox/open.js'
import type { Pool } from '../../src/sandbox/pool.js'
import { captureLog } from '../backend/support/fixtures.js'
import { sandboxConfig } from './support/config.js'
import { descendants } from './support/processes.js'
import { makeVenv, type Venv } from './support/venv.js'

const IMPORT_TIMEOUT_MS = 4_000

/** Modules that can be imported, and not be preloaded: each leaves something in the process, does not end, or ends it. */
const MODULES: Readonly<Record<string, string>> = {
  fine: '__version__ = "1"\nimport time\nloaded_at = time.monotonic()',
  opens_a_file: 'log = open(__file__)\nnumber = log.fileno()',
  opens_a_socket: 'import socket\npair = socket.socketpair()',
  forgets_a_file: 'class Ring: pass\nring = Ring()\nring.self, ring.file = ring, open(__file__)\ndel ring',
  starts_a_thread: 'import threading, time\nthreading.Thread(target=time.sleep, args=(3600,), daemon=True).start()',
  prints: 'import os, sys\nprint("x" * 100_000)\nprint("y", file=sys.stderr)\nos.write(1, b"z")\nloaded_at = 1',
  hangs: 'import time\ntime.sleep(3600)',
  // No signal handler of Python runs in there.
  hangs_in_c: 'import ctypes\nctypes.PyDLL(None).sleep(3600)',
  ends_it: 'import os\nos._exit(3)',
  crashes: 'import ctypes\nctypes.string_at(0)',
  raises: 'raise RuntimeError("not built for this machine")',
}

let venv: Venv
let pool: Pool | null = null

beforeAll(() => {
  venv = makeVenv(MODULES)
})
afterEach(async () => {
  await pool?.close()
  pool = null
  expect(descendants().filter(one => /^python|zygote|warden/.test(one.name))).toEqual([])
})
afterAll(() => venv.remove())

async function open(preload: readonly string[], more: { tier?: 'landlock'; runsPerZygote?: number } = {}) {
  const { tier = 'namespaces', ...options } = more
  const logged = captureLog()
  const opened = await openSandbox({
    config: sandboxConfig({ tier, python: venv.python, preload }),
    streamMaxBytes: 1,
    cpus: 2,
    env: process.env,
    log: logged.log,
    skipSelfTest: true,
    importTimeoutMs: IMPORT_TIMEOUT_MS,
    ...options,
  })
  pool = opened.pool
  return { facts: pool.facts, logged }
}

async function run(code: string): Promise<string> {
  if (pool === null) throw new Error('no pool is open')
  const report = await pool.run({ code, wallMs: 20_000, signal: new AbortController().signal, onStdout: () => {} })
  return `${report.status} ${report.stdout.text}${report.stderr.text}`
}

describe.each(['namespaces', 'landlock'] as const)('preloads that leave something in the process, %s tier', tier => {
  const ODD = ['opens_a_file', 'opens_a_socket', 'starts_a_thread', 'raises', 'never_installed']

  it('are left out and named with what they do, and code can import those that can be imported', async () => {
    const { facts } = await open([...ODD, 'fine', 'forgets_a_file', 'prints'], tier === 'landlock' ? { tier } : {})
    expect(facts.missing).toEqual({
      opens_a_file: 'keeps files, sockets or pipes open when it is imported',
      opens_a_socket: 'keeps files, sockets or pipes open when it is imported',
      starts_a_thread: 'starts threads when it is imported',
      raises: 'RuntimeError: not built for this machine',
      never_installed: expect.stringMatching(/^ModuleNotFoundError: /),
    })
    expect(Object.keys(facts.installed)).toEqual(['fine', 'forgets_a_file', 'prints'])
    const own =
      'import os, fine, opens_a_file\nprint(os.fstat(opens_a_file.number).st_size == os.stat(opens_a_file.__file__).st_size)'
    expect(await run(own)).toBe('completed True\n')
    expect(await run('import opens_a_socket, prints\na, b = opens_a_socket.pair\na.send(b"x")\nprint(b.recv(1))')).toBe(
      "completed b'x'\n",
    )
  })
})

describe('a preload that does not come to an end', () => {
  it.each(['hangs', 'hangs_in_c'])('is left out in the end: %s', async name => {
    const from = performance.now()
    const { facts } = await open([name, 'fine'])
    expect(performance.now() - from).toBeGreaterThan(IMPORT_TIMEOUT_MS - 100)
    expect(facts.missing).toEqual({ [name]: `is not imported within ${IMPORT_TIMEOUT_MS / 1000} s` })
    expect(Object.keys(facts.installed)).toEqual(['fine'])
    expect(await run('import fine\nprint(fine.__version__)')).toBe('completed 1\n')
  })

  it('is not waited for again when its zygote is replaced', async () => {
    const { logged } = await open(['hangs', 'fine'], { runsPerZygote: 3 })
    const seen = new Set<string>()
    const end = performance.now() + 15_000
    const from = performance.now()
    // The time at which it was imported tells one zygote from the next.
    while (seen.size < 3 && performance.now() < end) seen.add(await run('import fine\nprint(fine.loaded_at)'))
    expect(seen.size).toBe(3)
    expect(performance.now() - from).toBeLessThan(2 * IMPORT_TIMEOUT_MS + 4_000)
    expect(logged.messages()).not.toContain('zygote could not be replaced')
  })
})

describe('a preload that ends the interpreter', () => {
  it('is left out like any other that can not be had', async () => {
    const { facts } = await open(['ends_it', 'fine', 'crashes'])
    const why = 'ends the interpreter when it is imported'
    expect(facts.missing).toEqual({ ends_it: why, crashes: why })
    expect(await run('import fine\nprint(fine.__version__)')).toBe('completed 1\n')
    expect(await run('import ends_it')).toMatch(/^failed/)
  })
})
