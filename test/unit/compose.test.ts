import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { z } from 'zod'
import { loadConfig } from '../../src/config.js'

const read = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8')
const HOST = { cpus: 2, memoryBytes: 4e9 }

const Service = z.object({
  env_file: z.array(z.object({ path: z.string(), required: z.boolean() })).default([]),
  environment: z.record(z.string(), z.string()),
  ports: z.array(z.string()).default([]),
  profiles: z.array(z.string()).default([]),
  command: z.array(z.string()).default([]),
  networks: z.object({ default: z.object({ aliases: z.array(z.string()) }) }).optional(),
})
const { worker, demo, backend } = z
  .object({ services: z.strictObject({ worker: Service, demo: Service, backend: Service }) })
  .parse(parse(read('docker-compose.yml'), { merge: true })).services

/** As Compose replaces `${NAME:-default}`; every other form is left, and so would be seen. */
const replaced = (text: string, env: Record<string, string>) =>
  text.replaceAll(/\$\{([A-Z_]+):-([^}]*)\}/g, (_, name: string, otherwise: string) => env[name] || otherwise)

/** What the container is given: `environment` goes before `env_file`. */
function given(service: z.output<typeof Service>, env: Record<string, string>): Record<string, string> {
  const own = Object.entries(service.environment).map(([name, text]) => [name, replaced(text, env)])
  return { HOME: '/home/u', ...(service.env_file.length > 0 ? env : {}), ...Object.fromEntries(own) }
}

const BACKEND = { FLEXUS_API_BASEURL: 'https://backend.example/', FLEXUS_API_KEY: 'fx-of-the-env-file' }

describe('the worker of docker-compose.yml', () => {
  test('takes its settings from an .env, which may be absent', () => {
    expect(worker.env_file).toEqual([{ path: '.env', required: false }])
    expect(worker.profiles).toEqual([])
  })

  test('takes every setting of .env.example from there, but for the address that health is served on', () => {
    const example = [...read('.env.example').matchAll(/^#?([A-Z][A-Z0-9_]*)=/gm)].map(match => match[1] ?? '')
    const env = Object.fromEntries(example.map(name => [name, `value of ${name}`]))
    const got = given(worker, env)
    expect(example.filter(name => got[name] !== env[name])).toEqual(['HEALTH_HOST'])
  })

  test('is published at the port at which it serves health, for this machine alone', () => {
    expect(worker.ports.map(port => replaced(port, {}))).toEqual(['127.0.0.1:8470:8470'])
    expect(worker.ports.map(port => replaced(port, { HEALTH_PORT: '9000' }))).toEqual(['127.0.0.1:9000:9000'])
    expect(loadConfig(given(worker, { ...BACKEND, HEALTH_PORT: '9000' }), HOST, { backend: true }).health).toEqual({
      host: '0.0.0.0',
      port: 9_000,
    })
  })

  test.each([
    ['without an .env', {}, ['FLEXUS_API_BASEURL', 'FLEXUS_API_KEY']],
    ['with one that has no key', { FLEXUS_API_BASEURL: BACKEND.FLEXUS_API_BASEURL }, ['FLEXUS_API_KEY']],
    ['with one that has no address', { FLEXUS_API_KEY: BACKEND.FLEXUS_API_KEY }, ['FLEXUS_API_BASEURL']],
    ['with one that is not filled in', { FLEXUS_API_BASEURL: '', FLEXUS_API_KEY: '' }, ['FLEXUS_API_BASEURL']],
  ])('does not start %s: nothing stands in for what is missing', (_, env, missing) => {
    const start = () => loadConfig(given(worker, env), HOST, { backend: true })
    for (const name of missing) expect(start).toThrow(name)
  })
})

describe('the demo of docker-compose.yml', () => {
  test('is a worker that comes to the embedded backend, whatever an .env says', () => {
    expect(demo.env_file).toEqual([])
    const config = loadConfig(given(demo, BACKEND), HOST, { backend: true })
    const { hostname, port } = new URL(config.backend?.baseUrl ?? '')
    expect(backend.networks?.default.aliases).toEqual([hostname])
    expect(backend.command).toEqual(['backend', '--host', '0.0.0.0', '--port', port])
    expect(config.backend?.credentials).toEqual({ mode: 'key', apiKey: backend.environment['FLEXUS_API_KEY'] })
  })

  test('is started when it is asked for, with its backend, and published for this machine alone', () => {
    expect([demo.profiles, backend.profiles]).toEqual([['demo'], ['demo']])
    // Beside the worker's, which `--profile demo` starts as well.
    expect(demo.ports).toEqual(['127.0.0.1:8472:8470'])
    expect(backend.ports).toEqual([])
    expect(/^EXPOSE (\d+)$/m.exec(read('Dockerfile'))?.[1]).toBe('8470')
  })
})
