import type { Logger } from 'pino'
import type { BackendConfig, Config } from '../config.js'
import { createCredentials } from './credentials.js'
import { type BackendApi, createBackendApi, type RegisteredTool } from './http.js'
import { type ToolCall, type UnreadableCall, wsEndpoint } from './protocol.js'
import { createRegistration, type Registration } from './registration.js'
import { HURRIED_LIMITS, runSession } from './session.js'
import { createSupervisor, type Supervisor, type SupervisorState } from './supervisor.js'
import type { Sleep } from './waiting.js'

export interface BackendLinkOptions {
  readonly config: Pick<Config, 'serviceName' | 'fgroupId' | 'fuserId' | 'shared'>
  readonly backend: BackendConfig
  readonly tools: readonly RegisteredTool[]
  readonly log: Logger
  /** How the heartbeat waits; default real time. */
  readonly sleep?: Sleep
  onCall(call: ToolCall): void
  /** A call of which only the identity could be read. */
  onUnreadable(call: UnreadableCall, reason: string): void
  /** Registering is refused, or (null) accepted. */
  onRegistration(problem: string | null): void
  onState(state: SupervisorState): void
  /** A session has ended unasked, or has not come about, and why in a word. */
  onSessionEnded(why: string): void
}

/** All that speaks to the backend but the deltas: what is asked of it, what keeps us subscribed, and the heartbeat. */
export interface BackendLink {
  readonly api: BackendApi
  readonly supervisor: Supervisor
  readonly registration: Registration
}

/** Starts connecting; the heartbeat begins when it is activated. */
export function connectBackend(options: BackendLinkOptions): BackendLink {
  const { config, backend, tools, log, onCall, onUnreadable, onRegistration, onState, onSessionEnded, sleep } = options
  const fuserId = config.shared ? null : config.fuserId
  const audience = { fgroupId: config.fgroupId, fuserId, shared: config.shared }
  const credentials = createCredentials({ config: backend, serviceName: config.serviceName })
  const api = createBackendApi({ config: backend, credentials, log })
  const registration = createRegistration({
    api,
    tools,
    audience,
    log,
    onRefused: error => {
      if (error.kind === 'never') supervisor.forbid(error.message)
      else onRegistration(error.message)
    },
    onAccepted: () => onRegistration(null),
    ...(sleep === undefined ? {} : { sleep }),
  })
  const supervisor = createSupervisor({
    session: (onSubscribed, signal, hurried) =>
      runSession(
        {
          url: wsEndpoint(backend),
          toolNames: tools.map(tool => tool.name),
          fgroupId: audience.fgroupId,
          fuserId,
          credentials,
          log,
          ...(hurried ? { limits: HURRIED_LIMITS } : {}),
          onSubscribed,
          onCall,
          onMalformed: (reason, fcallId, call) => {
            log.error({ reason, fcall_id: fcallId }, 'the backend sent something that is no call')
            if (call !== null) onUnreadable(call, reason)
          },
        },
        signal,
      ),
    invalidateCredentials: () => credentials.invalidate(),
    log,
    onState,
    onEnded: onSessionEnded,
  })
  return { api, supervisor, registration }
}
