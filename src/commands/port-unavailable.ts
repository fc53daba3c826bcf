/** The port that a command was given cannot be had; the message is for a person. */
export class PortUnavailable extends Error {
  override readonly name = 'PortUnavailable'
}

/** What a server's failure to listen is, in words; any other error comes back as it was. */
export function explainListen(error: unknown, command: string, host: string, port: number): unknown {
  const { syscall, code } = error as NodeJS.ErrnoException
  if (syscall !== 'listen' && syscall !== 'getaddrinfo') return error
  const [why, remedy] =
    code === 'EADDRNOTAVAIL' || syscall === 'getaddrinfo'
      ? ['this machine has no such address', 'give another --host']
      : [code === 'EADDRINUSE' ? 'another program uses it' : (code ?? 'unknown error'), 'give another --port, or none']
  return new PortUnavailable(`${command} cannot listen on port ${port} of ${host}: ${why}; ${remedy}`)
}
