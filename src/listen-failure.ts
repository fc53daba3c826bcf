/** Why a server can't listen, for a person, and whether another address or another port would help. */
export interface ListenFailure {
  readonly why: string
  readonly blames: 'host' | 'port'
}

/** null for an error that is none of listening. */
export function listenFailure(error: unknown): ListenFailure | null {
  const { syscall, code } = error as NodeJS.ErrnoException
  if (syscall !== 'listen' && syscall !== 'getaddrinfo') return null
  if (code === 'EADDRNOTAVAIL' || syscall === 'getaddrinfo') {
    return { why: 'this machine has no such address', blames: 'host' }
  }
  switch (code) {
    case 'EADDRINUSE':
      return { why: 'another program uses it', blames: 'port' }
    case 'EACCES':
      return { why: 'ports below 1024 need root', blames: 'port' }
    default:
      return { why: code ?? 'unknown error', blames: 'port' }
  }
}
