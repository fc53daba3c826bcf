import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import type { Layer } from '../outcome.js'
import type { Interpreter } from './interpreter.js'

const PROBE_TIMEOUT_MS = 20_000
const PROBE =
  'import importlib.metadata as m; print(m.version("RestrictedPython"), flush=True); import RestrictedPython.transformer'
/** The versions whose way of refusing is known: python/core/restriction.py. */
const LEAST_VERSION = 4

/** The restricted policy is asked for, and can't be had; the message says why and what to do. */
export class PolicyUnavailable extends Error {
  override readonly name = 'PolicyUnavailable'
}

/** The restricted policy as a layer of the sandbox, where the interpreter has what it needs. Errors: PolicyUnavailable. */
export async function restrictedLayer({ path }: Interpreter): Promise<Layer> {
  const { version, fault } = await promisify(execFile)(path, ['-s', '-B', '-c', PROBE], {
    cwd: '/',
    env: {},
    timeout: PROBE_TIMEOUT_MS,
  }).then(
    ({ stdout }) => ({ version: stdout.trim(), fault: null }),
    // Its last line on stderr is the error's.
    ({ stdout = '', stderr = '' }: { stdout?: string; stderr?: string }) => ({
      version: stdout.trim(),
      fault: stderr.trim().split('\n').at(-1) ?? '',
    }),
  )
  if (fault === null && Number.parseInt(version, 10) >= LEAST_VERSION) {
    return { name: 'restricted policy', inForce: true, why: `RestrictedPython ${version}` }
  }
  const unfit = fault === null ? '' : ` that can not be imported (${fault})`
  const found = version === '' ? 'has no RestrictedPython' : `has RestrictedPython ${version}${unfit}`
  throw new PolicyUnavailable(
    `SANDBOX_POLICY=restricted: ${path} ${found}, ${LEAST_VERSION} or later is needed; install Debian's python3-restrictedpython, ` +
      'or name in SANDBOX_PYTHON the interpreter of a venv with RestrictedPython in it, or set SANDBOX_POLICY=full',
  )
}
