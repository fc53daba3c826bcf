import { listenFailure } from '../listen-failure.js'

/** The port that a command was given cannot be had; the message is for a person. */
export class PortUnavailable extends Error {
  override readonly name = 'PortUnavailable'
}

/** What a server's failure to listen is, in words; any other error comes back as it was. */
export function explainListen(error: unknown, command: string, host: string, port: number): unknown {
  const failure = listenFailure(error)
  if (failure === null) return error
  const { why, blames } = failure
  const remedy = blames === 'host' ? 'give another --host' : 'give another --port, or none'
  return new PortUnavailable(`${command} cannot listen on port ${port} of ${host}: ${why}; ${remedy}`)
}
