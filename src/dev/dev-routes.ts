import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { z } from 'zod'
import { statusLine, summarise, unseenPart } from './call-view.js'
import type { EmbeddedBackend } from './embedded-backend.js'
import { acceptPost } from './local-access.js'
import { answerText } from './request-body.js'

/** A real backend gives an unanswered call up after about ten minutes. */
const ANSWER_LIMIT_MS = 600_000
/** For the last words to the clients that still wait when all is being closed. */
const LAST_WORDS_MS = 500

const callSchema = z.strictObject({ code: z.string(), timeout_seconds: z.int().nullable().optional() })
const confirmSchema = z.strictObject({ fcall_id: z.string(), approve: z.boolean() })

/**
 * `POST /dev/call` {code, timeout_seconds?} streams a call's output and then its result as text/plain; `POST /dev/confirm`
 * {fcall_id, approve} is a person's word where the worker asks for one. They ask for no key: who is let in instead is in refusalOf.
 *
 * `close` tells the clients that still wait that nothing more will come, and resolves when they have heard it, or soon.
 */
export function addDevRoutes(backend: EmbeddedBackend): { close(): Promise<void> } {
  const waiting = new Map<AbortController, Promise<void>>()
  backend.addRoute('/dev/call', async (request, response) => {
    const body = await acceptPost(request, response, callSchema)
    if (body === null) return
    const end = new AbortController()
    // Without a reader there is nobody to wait for; the call itself goes on.
    response.once('close', () => end.abort('the client has gone'))
    const streaming = streamCall(backend, body.code, body.timeout_seconds ?? null, response, end.signal)
    waiting.set(end, streaming)
    await streaming.finally(() => waiting.delete(end))
  })
  backend.addRoute('/dev/confirm', async (request, response) => {
    const body = await acceptPost(request, response, confirmSchema)
    if (body === null) return
    try {
      backend.confirm(body.fcall_id, body.approve)
      answerText(response, 200, body.approve ? 'approved\n' : 'declined\n')
    } catch (error) {
      answerText(response, 404, `${error instanceof Error ? error.message : String(error)}\n`)
    }
  })
  return {
    async close() {
      const all = [...waiting.values()]
      for (const end of waiting.keys()) end.abort('the backend is closing')
      // A client that does not read must not keep us: its socket is destroyed with the backend.
      await Promise.race([Promise.allSettled(all), sleep(LAST_WORDS_MS, undefined, { ref: false })])
    },
  }
}

async function streamCall(
  backend: EmbeddedBackend,
  code: string,
  timeoutSeconds: number | null,
  response: ServerResponse,
  end: AbortSignal,
): Promise<void> {
  const pushedAt = performance.now()
  const { fcall_id: fcallId } = backend.pushCode(code, timeoutSeconds)
  response.writeHead(200, { 'content-type': 'text/plain; charset=utf-8', 'x-fcall-id': fcallId })
  response.flushHeaders()
  let streamed = ''
  const forget = backend.onEvent(event => {
    if (event.type === 'delta' && event.fcallId === fcallId) {
      streamed += event.delta.text
      response.write(event.delta.text)
    }
    if (event.type === 'confirmation_requested' && event.confirmation.fcallId === fcallId) {
      response.write(`[waiting for a person: POST /dev/confirm {"fcall_id": "${fcallId}", "approve": true}]\n`)
    }
  })
  try {
    const answer = await backend.waitForAnswer(fcallId, ANSWER_LIMIT_MS, end)
    forget()
    const shown = streamed + unseenPart(streamed, summarise(answer).text)
    response.write(shown.slice(streamed.length))
    response.end(
      `${shown === '' || shown.endsWith('\n') ? '' : '\n'}--- ${statusLine(answer, answer.atMs - pushedAt)}\n`,
    )
  } catch (error) {
    if (response.destroyed) return
    const lineEnd = streamed === '' || streamed.endsWith('\n') ? '' : '\n'
    const said = once(response, 'close')
    response.end(`${lineEnd}--- ${error instanceof Error ? error.message : String(error)}\n`)
    await said
  } finally {
    forget()
  }
}
