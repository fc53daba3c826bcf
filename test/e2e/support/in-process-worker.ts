import { onTestFinished } from 'vitest'
import { readSetup } from '../../../src/commands/setup.js'
import { startWorker } from '../../../src/commands/start.js'
import type { EmbeddedBackend } from '../../../src/dev/embedded-backend.js'
import type { Worker } from '../../../src/worker.js'
import { type CapturedLog, captureLog } from '../../backend/support/fixtures.js'
import { PYTHON } from './worker-process.js'

/** A whole worker with a real sandbox in this process, for what cannot be reached from outside: cancel, state. */
export async function startInProcess(
  backend: EmbeddedBackend,
  env: Readonly<Record<string, string>> = {},
): Promise<{ readonly worker: Worker; readonly logged: CapturedLog }> {
  const logged = captureLog()
  const setup = readSetup(
    {
      FLEXUS_API_BASEURL: backend.url,
      FLEXUS_API_KEY: backend.apiKey,
      SANDBOX_PYTHON: PYTHON,
      SANDBOX_PRELOAD: 'none',
      DRAIN_MS: '5000',
      ...env,
    },
    { backend: true },
  )
  if (setup.config.backend === null) throw new Error('the configuration has no backend')
  const { worker, tools } = await startWorker(setup, setup.config.backend, logged.log)
  onTestFinished(async () => {
    await worker.stop('the test is over')
    await tools.close()
  })
  await backend.waitFor(() => backend.subscribers > 0 && backend.registrations.length > 0, 20_000)
  return { worker, logged }
}
