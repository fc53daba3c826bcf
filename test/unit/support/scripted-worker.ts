import type { Logger } from 'pino'
import { onTestFinished } from 'vitest'
import type { Sleep } from '../../../src/backend/waiting.js'
import type { BackendConfig, Config } from '../../../src/config.js'
import { type EmbeddedBackend, startEmbeddedBackend } from '../../../src/dev/embedded-backend.js'
import type { Journal } from '../../../src/journal/journal.js'
import { MemoryJournal } from '../../../src/journal/memory-journal.js'
import { broken, busy, notRun, rejected } from '../../../src/tool/outcome-without-run.js'
import type { Invocation, Reply, Tool } from '../../../src/tool/tool.js'
import { Worker } from '../../../src/worker.js'
import { captureLog } from '../../backend/support/fixtures.js'
import { startProxy } from '../../fault/support/proxy.js'
import { config as baseConfig, context } from '../tool/fixtures.js'

export type Handle = (invocation: Invocation<unknown>) => Promise<Reply>

export function text(content: string): Reply {
  return { kind: 'answer', content, provenance: {}, dollars: 0, outcome: null }
}

/** A worker with a scripted tool in place of the sandbox, and a proxy between it and the backend. */
export async function startScripted(
  handle: Handle,
  changes: {
    slots?: number
    drainMs?: number
    sleep?: Sleep
    journal?: (log: Logger) => Promise<Journal>
    postingMostBytes?: number
    outboxMostAnswers?: number
  } = {},
) {
  const backend = await startEmbeddedBackend()
  const proxy = await startProxy(backend.port)
  const logged = captureLog()
  const reach: BackendConfig = {
    baseUrl: proxy.url,
    endpoint: '/v1/graphql',
    credentials: { mode: 'key', apiKey: backend.apiKey },
  }
  const config: Config = {
    ...baseConfig,
    backend: reach,
    drainMs: changes.drainMs ?? 2_000,
    sandbox: { ...baseConfig.sandbox, slots: changes.slots ?? 2 },
  }
  const forbidden: string[] = []
  let started = 0
  const worker = new Worker({
    config,
    backend: reach,
    journal: (await changes.journal?.(logged.log)) ?? new MemoryJournal(),
    tools: [
      tool(invocation => {
        started++
        return handle(invocation)
      }),
    ],
    outcomes: {
      rejected: (message, called) => rejected(context, message, called),
      busy: called => busy(context, called),
      notRun: (status, reason, called) => notRun(context, status, reason, called),
      broken: (reason, started, called) => broken(context, reason, started, called),
    },
    log: logged.log,
    onForbidden: reason => forbidden.push(reason),
    ...(changes.sleep === undefined ? {} : { sleep: changes.sleep }),
    ...(changes.postingMostBytes === undefined ? {} : { postingMostBytes: changes.postingMostBytes }),
    ...(changes.outboxMostAnswers === undefined ? {} : { outboxMostAnswers: changes.outboxMostAnswers }),
  })
  onTestFinished(async () => {
    await worker.stop('the test is over')
    await proxy.close()
    await backend.close()
  })
  await backend.waitFor(() => backend.subscribers > 0 && backend.registrations.length > 0, 10_000)
  /** A call is "delivered" when the backend has sent it; whether it runs only the tool knows. */
  const running = (count: number) => backend.waitFor(() => started >= count, 5_000)
  return { backend, proxy, worker, logged, forbidden, running }
}

export function tool(handle: Handle, parameters: Tool['parameters'] = { type: 'object' }): Tool {
  return {
    name: 'python_execute',
    description: 'A scripted tool.',
    parameters,
    parse: args => ({ ok: true, args }),
    before: () => null,
    handle,
  }
}

export function answerOf(backend: EmbeddedBackend, fcallId: string): unknown {
  return backend.answers.get(fcallId)?.[0]?.content
}
