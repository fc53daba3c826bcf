import { setTimeout as sleep } from 'node:timers/promises'
import { createClient } from 'graphql-ws'
import { WebSocket } from 'ws'
import type { ToolCall } from '../../src/backend/protocol.js'
import type { RunningWorker } from '../../src/dev/demo.js'
import { askPerson, deltaFrame, GOOD_PARAMETERS, postWith, register, WAIT } from './embedded-client.js'

/**
 * A worker that runs a language of six words instead of Python, so that `dev` and `demo` are tested without a sandbox: `say TEXT` prints,
 * `mute TEXT` prints without streaming, `sleep MS`, `value TEXT` is the last expression, `fail TEXT` raises, `ask` wants a person's word
 * first, `twice` posts the answer a second time. An interruption ends what sleeps.
 */
export async function startScriptedWorker(url: string, apiKey: string): Promise<RunningWorker> {
  const backend = { url, apiKey }
  const client = createClient({
    url: new URL('/v1/graphql', url.replace('http', 'ws')).href,
    webSocketImpl: WebSocket,
    connectionParams: { apikey: apiKey, 'x-flexus-service-name': 'python_execute' },
    retryAttempts: 0,
  })
  const deltas = new WebSocket(new URL('/v1/delta/ws', url.replace('http', 'ws')))
  await new Promise((resolve, reject) => deltas.once('open', resolve).once('error', reject))
  let stopped = false
  const interrupted = new AbortController()
  const inFlight = new Set<Promise<void>>()
  client.subscribe<{ cloudtool_wait_for_call: ToolCall }>(
    { query: WAIT, variables: { names: ['python_execute'] } },
    {
      next({ data }) {
        // graphql-ws does not wait for the close that it asked for, so a last call may still come.
        if (data == null || stopped) return
        const answering = answer(data.cloudtool_wait_for_call).finally(() => inFlight.delete(answering))
        inFlight.add(answering)
      },
      error() {},
      complete() {},
    },
  )
  await register(backend, GOOD_PARAMETERS)

  async function answer(call: ToolCall): Promise<void> {
    const { code } = JSON.parse(call.fcall_arguments) as { code: string }
    let content = ''
    let status = 'completed'
    let posts = 1
    for (const line of code.split('\n')) {
      const [word, rest = ''] = line.split(/ (.*)/s)
      if (word === 'ask' && call.confirmed_by_human === null) {
        await askPerson(backend, call)
        return
      }
      if (word === 'sleep') await sleep(Number(rest), undefined, { signal: interrupted.signal }).catch(() => {})
      if (word === 'twice') posts = 2
      if (word === 'say' || word === 'mute' || word === 'value' || word === 'fail') content += `${rest}\n`
      if (word === 'say') deltas.send(JSON.stringify(deltaFrame(call, `${rest}\n`)))
      if (word === 'fail') status = 'failed'
    }
    for (let n = 0; n < posts; n += 1) {
      await postWith(backend, call, JSON.stringify(content), { system: 'python_execute', status, tier: 'namespaces' })
    }
  }

  return {
    async stop() {
      stopped = true
      await client.dispose()
      await Promise.all(inFlight)
      deltas.terminate()
    },
    interrupt: () => interrupted.abort(),
    cancel: () => {
      interrupted.abort()
      return inFlight.size > 0
    },
    files: null,
    drainMs: 25_000,
    describe: () => 'a worker of six words',
  }
}
