import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo, Server, Socket } from 'node:net'

export interface WebServer {
  /** As "127.0.0.1:8080". */
  readonly pair: string
  readonly port: number
  readonly url: (path: string) => string
  /** Of all requests so far. */
  readonly hosts: readonly string[]
  close(): Promise<void>
}

/** A server on the loopback. */
export async function serve(listener: RequestListener, { address = '127.0.0.1', port = 0 } = {}): Promise<WebServer> {
  const hosts: string[] = []
  const server = createServer((request, response) => {
    hosts.push(request.headers.host ?? '')
    response.on('error', () => {})
    listener(request, response)
  })
  return await listening(server, address, port, hosts)
}

export async function listening(
  server: Server,
  address: string,
  port: number,
  hosts: readonly string[] = [],
): Promise<WebServer> {
  const sockets = new Set<Socket>()
  server.on('connection', (socket: Socket) => {
    sockets.add(socket)
    socket.on('error', () => {})
    socket.once('close', () => sockets.delete(socket))
  })
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, address, resolve)
  })
  const bound = (server.address() as AddressInfo).port
  return {
    pair: `${address}:${bound}`,
    port: bound,
    hosts,
    url: path => `http://${address}:${bound}${path}`,
    close: () =>
      new Promise(resolve => {
        server.close(() => resolve())
        for (const socket of sockets) socket.destroy()
      }),
  }
}
