import http from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import { listenFailure } from '../listen-failure.js'
import type { Recorder } from './recorder.js'
import type { WorkerIdentity, WorkerStatus } from './status.js'
import { statusPage } from './status-page.js'

export interface HealthServerOptions {
  readonly host: string
  /** 0: any that is free. */
  readonly port: number
  /** null while the worker is starting. */
  view(): HealthView | null
}

export interface HealthView {
  readonly identity: WorkerIdentity
  readonly status: WorkerStatus
  readonly recorder: Pick<Recorder, 'lastCalls' | 'callsPerMinute' | 'metrics'>
}

export interface HealthServer {
  /** http://host:port */
  readonly url: string
  close(): Promise<void>
}

/** The port can't be had; the message says which and why. */
export class HealthPortUnavailable extends Error {
  override readonly name = 'HealthPortUnavailable'
}

/** For a request to come, for its answer to be taken, and for the next one on the same connection. */
const WITHIN_MS = 5_000
/** How often node looks for requests that take longer; its own 30 s would make that 35 s. */
const LOOKED_AT_MS = 1_000
/** Probes, Prometheus and some people; each is a file descriptor of the worker's. */
const CONNECTIONS_MOST = 64
const HEADERS_MOST_BYTES = 8_192

/**
 * What probes, Prometheus and people look at: /livez, /readyz, /metrics and a page at /. Reads nothing of a request but its method and path, and
 * shows nothing of whose calls they are. Of connections that do nothing none lasts for longer than 6 s, and no more than 64 are open at once: for
 * a further one the oldest is closed, so that whoever keeps many open locks out no probe. Errors: HealthPortUnavailable.
 */
export async function startHealthServer(options: HealthServerOptions): Promise<HealthServer> {
  const limits: http.ServerOptions = {
    maxHeaderSize: HEADERS_MOST_BYTES,
    connectionsCheckingInterval: LOOKED_AT_MS,
    headersTimeout: WITHIN_MS,
    requestTimeout: WITHIN_MS,
    keepAliveTimeout: WITHIN_MS,
  }
  const server = http.createServer(limits, (request, response) => {
    answer(request, response, options).catch(() => response.destroy())
  })
  // Whatever moves nothing, such as a peer that does not read.
  server.timeout = WITHIN_MS
  boundConnections(server)
  await new Promise<void>((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) => reject(unavailable(error, options)))
    server.listen(options.port, options.host, resolve)
  })
  server.unref()
  const { address, port, family } = server.address() as AddressInfo
  return {
    url: `http://${family === 'IPv6' ? `[${address}]` : address}:${port}`,
    close: () =>
      new Promise(resolve => {
        server.close(() => resolve())
        server.closeAllConnections()
      }),
  }
}

/** In the order in which they came; server.maxConnections would refuse the newest instead. */
function boundConnections(server: http.Server): void {
  const open = new Set<Socket>()
  server.on('connection', socket => {
    open.add(socket)
    socket.once('close', () => open.delete(socket))
    const [oldest] = open
    if (open.size > CONNECTIONS_MOST) oldest?.destroy()
  })
}

function unavailable(error: NodeJS.ErrnoException, { host, port }: HealthServerOptions): HealthPortUnavailable {
  const { why, blames } = listenFailure(error) ?? { why: error.message, blames: 'port' }
  return new HealthPortUnavailable(
    blames === 'host'
      ? `HEALTH_HOST: ${host} can not be had: ${why}; give another HEALTH_HOST`
      : `HEALTH_PORT: ${host}:${port} can not be had: ${why}; give another HEALTH_PORT, 0 for any, or off`,
  )
}

async function answer(
  request: http.IncomingMessage,
  response: http.ServerResponse,
  options: HealthServerOptions,
): Promise<void> {
  const send = (status: number, type: string, body: string, headers: http.OutgoingHttpHeaders = {}) => {
    response.writeHead(status, {
      'content-type': type,
      'cache-control': 'no-store',
      'x-content-type-options': 'nosniff',
      ...headers,
    })
    response.end(request.method === 'HEAD' ? undefined : body)
  }
  if (request.method !== 'GET' && request.method !== 'HEAD') {
    send(405, 'text/plain; charset=utf-8', 'only GET and HEAD\n', { allow: 'GET, HEAD' })
    return
  }
  const view = options.view()
  switch ((request.url ?? '/').split('?')[0]) {
    case '/livez':
      send(200, 'text/plain; charset=utf-8', 'alive\n')
      return
    case '/readyz': {
      const ready = view !== null && view.status.reasons.length === 0
      const body =
        view === null
          ? { ready, state: 'starting', reasons: ['the worker is starting'] }
          : { ready, ...view.status, tier: view.identity.tier, layers: view.identity.layers }
      send(ready ? 200 : 503, 'application/json', `${JSON.stringify(body)}\n`)
      return
    }
    case '/metrics': {
      if (view === null) {
        send(503, 'text/plain; charset=utf-8', 'the worker is starting\n')
        return
      }
      const { contentType, text } = await view.recorder.metrics()
      send(200, contentType, text)
      return
    }
    case '/':
      send(200, 'text/html; charset=utf-8', statusPage(view, Date.now()), {
        'content-security-policy': "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'",
      })
      return
    default:
      send(404, 'text/plain; charset=utf-8', 'there are /livez, /readyz, /metrics and /\n')
  }
}
