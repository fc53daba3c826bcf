// The image's health check: whether the worker's own event loop answers. Exit code 0 or 1; says why not.
const host = process.env.HEALTH_HOST || '127.0.0.1'
const port = process.env.HEALTH_PORT || '8470'
const LIMIT_MS = 4_000

// Switched off, or a port that nobody can know: then only the process says whether it lives.
if (port !== 'off' && port !== '0') {
  const here = { '0.0.0.0': '127.0.0.1', '::': '[::1]' }[host] ?? (host.includes(':') ? `[${host}]` : host)
  try {
    const { status } = await fetch(`http://${here}:${port}/livez`, { signal: AbortSignal.timeout(LIMIT_MS) })
    if (status !== 200) throw new Error(`it answers ${status}`)
  } catch (error) {
    process.stdout.write(`${here}:${port}/livez: ${error.cause?.message ?? error.message}\n`)
    process.exitCode = 1
  }
}
