import { existsSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'

/** A command that sends the embedded backend a call, for whoever has curl. */
function curlLine(url: string): string {
  return `curl -N ${url}dev/call -H 'content-type: application/json' -d '{"code": "print(6 * 7)"}'`
}

/** What of the place decides which command can be followed there. */
export interface Place {
  readonly hasCurl: boolean
  /** Id by which the engine knows the container that this process is in; null where there is none. */
  readonly container: string | null
}

/**
 * The command that sends a call where this process is: calls are taken from this machine alone, and a container is one of its own, which has node,
 * but no curl.
 */
export function callLine(url: string, { hasCurl, container }: Place = placeOf(process.env)): string {
  if (hasCurl) return curlLine(url)
  const post = `{method: "POST", headers: {"content-type": "application/json"}, body: JSON.stringify({code: "print(6 * 7)"})}`
  const node = `node -e 'fetch("${url}dev/call", ${post}).then(r => r.text()).then(t => console.log(t))'`
  return container === null ? node : `docker exec ${container} ${node}`
}

function placeOf(env: NodeJS.ProcessEnv): Place {
  const folders = (env['PATH'] ?? '').split(':')
  // A container has its id for a name where nobody gave it another.
  const id = /^[0-9a-f]{12}$/.test(os.hostname()) ? os.hostname() : null
  return {
    hasCurl: folders.some(folder => folder !== '' && existsSync(path.join(folder, 'curl'))),
    container: id,
  }
}
