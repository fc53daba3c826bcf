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
  /** A secret was read, under a name for its kind. */
  onSecret?(name: string, value: string): void
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
  /** host:port of the backend. */
  readonly address: string
  /** Why the last session ended or did not come about, fit for a log; null while there is one, and before the first. */
  readonly trouble: string | null
}

/** Starts connecting; the heartbeat begins when it is activated. */
export function connectBackend(options: BackendLinkOptions): BackendLink {
  const {
    config,
    backend,
    tools,
    log,
    onSecret,
    onCall,
    onUnreadable,
    onRegistration,
    onState,
    onSessionEnded,
    sleep,
  } = options
  const fuserId = config.shared ? null : config.fuserId
  const address = addressOf(backend.baseUrl)
  let trouble: string | null = null
  const audience = { fgroupId: config.fgroupId, fuserId, shared: config.shared }
  const credentials = createCredentials({
    config: backend,
    serviceName: config.serviceName,
    ...(onSecret === undefined ? {} : { onSecret }),
  })
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
    address,
    onState: state => {
      if (state.name === 'waiting') trouble = state.reason
      else if (state.name === 'subscribed') trouble = null
      onState(state)
    },
    onEnded: onSessionEnded,
  })
  return {
    api,
    supervisor,
    registration,
    address,
    get trouble() {
      return trouble
    },
  }
}

/** With the port, which a URL does not show where it is the scheme's own. */
function addressOf(baseUrl: string): string {
  const { hostname, port, protocol } = new URL(baseUrl)
  return `${hostname}:${port || (protocol === 'https:' ? '443' : '80')}`
}
