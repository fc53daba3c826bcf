import { execFile } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { loadConfig } from '../../src/config.js'
import { startHealthServer } from '../../src/telemetry/health-server.js'

const program = fileURLToPath(new URL('../../docker/healthcheck.mjs', import.meta.url))
const { healthPort, healthHost } = (await import(program)) as {
  healthPort(text?: string): number | null | undefined
  healthHost(text?: string): string
}

/** What the worker makes of it; undefined: it does not start. */
function configured(env: Record<string, string>) {
  try {
    return loadConfig({ HOME: '/h', ...env }, { cpus: 2, memoryBytes: 2 ** 32 }, { backend: false }).health
  } catch {
    return undefined
  }
}

test.each([
  ...['', ' ', '8470', ' 9000 ', '09000', '65535', '1', 'off', 'OFF', ' Off ', '0', '00000'],
  ...['65536', '000000', '-1', '1e3', '80a', '0x50', 'none', 'of f', '8470.0'],
])('the health check and the worker make the same of HEALTH_PORT=%j', text => {
  const health = configured({ HEALTH_PORT: text })
  // One that nobody knows beforehand is as good as none to the check.
  const expected = health === undefined ? undefined : health.port === 0 ? null : health.port
  expect(healthPort(text)).toBe(expected)
})

test.each(['', ' ', '127.0.0.1', ' 10.0.0.1 ', '::1', 'localhost'])(
  'the health check asks where the worker listens with HEALTH_HOST=%j',
  text => {
    expect(healthHost(text)).toBe(configured({ HEALTH_HOST: text })?.host)
  },
)

test('without the variables both take the same, and of all addresses the check takes this machine’s own', () => {
  expect({ host: healthHost(undefined), port: healthPort(undefined) }).toEqual(configured({}))
  expect([healthHost('0.0.0.0'), healthHost(' :: ')]).toEqual(['127.0.0.1', '::1'])
})

test('the health check takes little more memory than node itself', async () => {
  const server = await startHealthServer({ host: '127.0.0.1', port: 0, view: () => null })
  onTestFinished(() => server.close())
  const say = 'data:text/javascript,process.on("exit",()=>process.stderr.write(String(process.resourceUsage().maxRSS)))'
  const kilobytes = async (last: string[]) => {
    const env = { HEALTH_PORT: new URL(server.url).port }
    return Number((await promisify(execFile)(process.execPath, ['--import', say, ...last], { env })).stderr)
  }
  // With fetch it would be 40 000.
  expect((await kilobytes([program])) - (await kilobytes(['-e', '0']))).toBeLessThan(15_000)
})

test('the health check fails and says so where the worker would not start with the port', async () => {
  const run = promisify(execFile)(process.execPath, [program], { env: { HEALTH_PORT: 'of' } })
  await expect(run).rejects.toMatchObject({ code: 1, stdout: 'HEALTH_PORT is no port, and not off\n' })
})
