// The image's health check: whether the worker's own event loop answers. Exit code 0 or 1; says why not. Runs every half a minute, and so
// loads nothing but node's own http. Reads the two variables as src/config.ts does, which a test compares.
import http from 'node:http'

const LIMIT_MS = 4_000

/** @returns {number | null | undefined} null: there is none to ask; undefined: the worker does not start with it either. */
export function healthPort(text = '') {
  const given = text.trim() || '8470'
  if (given.toLowerCase() === 'off') return null
  const port = /^\d{1,5}$/.test(given) ? Number(given) : Number.NaN
  if (port === 0) return null // any that is free: only the worker knows which
  return port <= 65_535 ? port : undefined
}

/** @returns {string} where to ask a worker that listens there. */
export function healthHost(text = '') {
  const given = text.trim() || '127.0.0.1'
  return { '0.0.0.0': '127.0.0.1', '::': '::1' }[given] ?? given
}

function check(host, port) {
  const failed = why => {
    process.stdout.write(`${host.includes(':') ? `[${host}]` : host}:${port}/livez: ${why}\n`)
    process.exit(1)
  }
  const request = http.get({ host, port, path: '/livez', agent: false }, ({ statusCode }) => {
    if (statusCode !== 200) failed(`it answers ${statusCode}`)
    process.exit(0)
  })
  request.on('error', error => failed(error.message || error.code))
  setTimeout(() => failed(`no answer within ${LIMIT_MS / 1000} s`), LIMIT_MS)
}

if (import.meta.main ?? process.argv[1]?.endsWith('healthcheck.mjs')) {
  const port = healthPort(process.env.HEALTH_PORT)
  if (port === undefined) {
    process.stdout.write('HEALTH_PORT is no port, and not off\n')
    process.exitCode = 1
  } else if (port !== null) check(healthHost(process.env.HEALTH_HOST), port)
}
