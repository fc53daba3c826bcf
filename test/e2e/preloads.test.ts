import { afterAll, afterEach, beforeAll, expect, it } from 'vitest'
import { makeVenv, type Venv } from '../sandbox/support/venv.js'
import { endPrograms, startProgram } from './support/worker-process.js'

const MODULES: Readonly<Record<string, string>> = {
  fine: '__version__ = "1.2"',
  raises: 'raise RuntimeError("not built for this machine")',
  starts_a_thread: 'import threading, time\nthreading.Thread(target=time.sleep, args=(3600,), daemon=True).start()',
  opens_a_socket: 'import socket\npair = socket.socketpair()',
  ends_it: 'import os\nos._exit(3)',
}
const NAMES = [...Object.keys(MODULES), 'never_installed']
const WHY: Readonly<Record<string, string>> = {
  raises: 'RuntimeError: not built for this machine',
  starts_a_thread: 'starts threads when it is imported',
  opens_a_socket: 'keeps files, sockets or pipes open when it is imported',
  ends_it: 'ends the interpreter when it is imported',
  never_installed: "ModuleNotFoundError: No module named 'never_installed'",
}

let venv: Venv
beforeAll(() => {
  venv = makeVenv(MODULES)
})
afterAll(() => venv.remove())
afterEach(endPrograms)

const env = () => ({ SANDBOX_PYTHON: venv.python, SANDBOX_PRELOAD: NAMES.join(',') })

it('doctor names each preload that can not be had, with the reason, and finds a sandbox', async () => {
  const program = await startProgram(['doctor'], env())
  expect((await program.exited).code).toBe(0)
  const lines = program.stdout().split('\n')
  expect(lines).toContain('preloaded: fine 1.2')
  for (const [name, why] of Object.entries(WHY)) expect(lines).toContain(`  not preloaded: ${name} (${why})`)
})

it('the log names them too, and code runs with what is there', async () => {
  const program = await startProgram(['exec', '-'], { ...env(), LOG_LEVEL: 'warn', LOG_PRETTY: '0' }, 'pipe')
  program.child.stdin?.end('import fine, starts_a_thread\nprint(fine.__version__)')
  expect((await program.exited).code).toBe(0)
  expect(program.stdout()).toBe('1.2\n')
  const logged = program.stderr().replace(/\s+/g, ' ')
  expect(logged).toContain('not preloaded')
  for (const name of Object.keys(WHY)) expect(logged).toContain(name)
})
