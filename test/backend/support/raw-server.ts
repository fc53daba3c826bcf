import { createServer, type Socket } from 'node:net'

/** A TCP server on loopback that only hands over its sockets, for peers that speak no websocket. */
export async function rawServer(onSocket: (socket: Socket) => void): Promise<{ url: string; close(): void }> {
  const sockets = new Set<Socket>()
  const server = createServer(socket => {
    sockets.add(socket)
    socket.on('error', () => {})
    onSocket(socket)
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  if (address === null || typeof address === 'string') throw new Error('no port')
  return {
    url: `ws://127.0.0.1:${address.port}/`,
    close() {
      for (const socket of sockets) socket.destroy()
      server.close()
    },
  }
}
