import { spawn } from 'node:child_process'
import { once } from 'node:events'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { callLine } from '../../src/dev/call-hint.js'

const URL_HERE = 'http://127.0.0.1:8471/'

test('a call is sent with curl where there is one', () => {
  expect(callLine(URL_HERE, { hasCurl: true, container: null })).toMatch(
    /^curl -N http:\/\/127\.0\.0\.1:8471\/dev\/call /,
  )
})

test('a call is sent from inside of a container by its engine, with node', () => {
  expect(callLine(URL_HERE, { hasCurl: false, container: '0123456789ab' })).toMatch(
    /^docker exec 0123456789ab node -e '/,
  )
})

test('the command for node sends what the one for curl does, as a shell reads it', async () => {
  const line = callLine('URL/', { hasCurl: false, container: null })
  const bodies: string[] = []
  const server = http.createServer((request, response) => {
    request.setEncoding('utf8').on('data', (text: string) => bodies.push(`${request.url} ${text}`))
    request.on('end', () => response.end('42'))
  })
  onTestFinished(() => void server.close())
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
  const child = spawn('sh', ['-c', line.replace('URL/', url)], { stdio: ['ignore', 'pipe', 'inherit'] })
  let out = ''
  child.stdout.on('data', chunk => (out += String(chunk)))
  expect(await once(child, 'close')).toEqual([0, null])
  expect(out).toBe('42\n')
  expect(bodies).toEqual(['/dev/call {"code":"print(6 * 7)"}'])
})
