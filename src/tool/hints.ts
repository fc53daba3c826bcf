import type { SandboxFacts, SandboxReport } from '../outcome.js'

/** As far as a traceback's last frame reaches: where it is, its source, the marks below it, the exception. */
const LOOKED_AT_LINES = 5

const NO_NETWORK =
  /Temporary failure in name resolution|Name or service not known|No address associated with hostname|Could not resolve host|Network is unreachable|\bENETUNREACH\b/

/**
 * What code that failed should have known of the sandbox, as phrases for bracketed lines: an error number does not tell a model that
 * trying again is useless. Told by the last lines of stderr alone, so that an older message that the code has dealt with counts
 * for nothing.
 */
export function hints({ status, stderr }: SandboxReport, facts: SandboxFacts): string[] {
  if (status !== 'failed') return []
  const lines = stderr.text.trimEnd().split('\n').slice(-LOOKED_AT_LINES)
  const last = lines.at(-1) ?? ''
  // The landlock tier refuses to make the socket or the process; where a file was refused, the lines above name neither.
  const refused = (what: RegExp) => last.startsWith('PermissionError:') && lines.some(line => what.test(line))
  if (NO_NETWORK.test(last) || (facts.tier === 'landlock' && refused(/_socket\.socket\.__init__\(/))) {
    return ['there is no network in the sandbox']
  }
  if (!facts.subprocesses && refused(/\b(?:_?fork(?:_exec|pty)?|posix_spawnp?|_execute_child|SemLock)\(/)) {
    return ['no processes can be started in this sandbox']
  }
  return []
}
