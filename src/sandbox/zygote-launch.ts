import type { Channel } from './channel.js'
import { parseJson } from './listener.js'
import { ZygoteEvent } from './messages.js'
import type { Template } from './template.js'

/** For one module, and for everything else that a zygote does before it is ready. */
const IMPORT_TIMEOUT_MS = 60_000
/** A connection that was made before the end may be seen after it. */
const CONNECT_BEHIND_MS = 250

export interface LaunchOptions {
  readonly id: number
  readonly preload: readonly string[]
  /** As a program of its own, with a hash seed and an address layout that no other has; else a fork of the template, which is faster. */
  readonly renew: boolean
  readonly templateGone: AbortSignal
  /** How long one module may take. Default 60 s. */
  readonly importTimeoutMs?: number | undefined
}

/** A zygote that is ready; or the module that it can't live with, and why; or that which was being imported when it died. */
export type Launched =
  | {
      readonly channel: Channel
      readonly preloaded: {
        readonly installed: Readonly<Record<string, string>>
        readonly missing: Readonly<Record<string, string>>
        readonly importMs: number
      }
      readonly notRenewed: string | null
    }
  | { readonly unfit: string; readonly why: string }
  | { readonly died: string }

/** Starts a zygote process and waits for its imports. Errors: Error when it ends, or hangs, in something else than an import. */
export function launch(template: Template, options: LaunchOptions): Promise<Launched> {
  const { id, templateGone, importTimeoutMs = IMPORT_TIMEOUT_MS } = options
  return new Promise((resolve, reject) => {
    let connected = false
    let importing: string | null = null
    const settled = () => {
      clearTimeout(timer)
      template.onZygoteExit.delete(id)
      template.listener.forget(token)
      templateGone.removeEventListener('abort', onGone)
    }
    const settle = (result: Launched) => {
      settled()
      resolve(result)
    }
    const fail = (reason: string) => {
      settled()
      const words = template.lastWords()
      reject(new Error(words === '' ? reason : `${reason}: ${words}`))
    }
    const onGone = () => fail('the template has ended')
    const onTimeout = () => {
      template.channel.sendJson({ op: 'kill_zygote', zygote: id })
      const seconds = importTimeoutMs / 1000
      if (importing === null) fail(`the zygote was not ready in ${seconds} s`)
      else settle({ unfit: importing, why: `is not imported within ${seconds} s` })
    }
    let timer = setTimeout(onTimeout, importTimeoutMs)
    const onEvent = (event: ZygoteEvent, channel: Channel) => {
      switch (event.event) {
        case 'importing':
          importing = event.module
          clearTimeout(timer)
          timer = setTimeout(onTimeout, importTimeoutMs)
          return
        case 'unfit':
          settle({ unfit: event.module, why: event.why })
          return
        case 'ready': {
          const { installed, missing, import_ms: importMs, not_renewed: notRenewed = null } = event
          settle({ channel, preloaded: { installed, missing, importMs }, notRenewed })
          return
        }
        case 'exit':
        case 'not_forked':
        case 'pong': // it serves already
      }
    }
    const token = template.listener.expect(channel => {
      connected = true
      channel.listen(
        frame => {
          const event = ZygoteEvent.safeParse(parseJson(frame.payload))
          if (event.success) onEvent(event.data, channel)
        },
        () => (importing === null ? fail('the zygote ended before it was ready') : settle({ died: importing })),
      )
    })
    // Of one that has connected the channel tells, perhaps with a last word; and the connection may be a moment behind.
    template.onZygoteExit.set(id, () =>
      setTimeout(() => connected || fail('the zygote ended before it had connected'), CONNECT_BEHIND_MS),
    )
    if (templateGone.aborted) onGone()
    templateGone.addEventListener('abort', onGone, { once: true })
    template.channel.sendJson({ op: 'zygote', zygote: id, token, preload: options.preload, renew: options.renew })
  })
}
