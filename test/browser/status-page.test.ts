import type { Browser, Page } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { startHealthServer } from '../../src/telemetry/health-server.js'
import { Recorder } from '../../src/telemetry/recorder.js'
import type { WorkerIdentity, WorkerStatus } from '../../src/telemetry/status.js'
import { captureLog } from '../backend/support/fixtures.js'
import { CALL } from '../unit/telemetry/fixtures.js'
import { launchChromium, SCREENSHOTS } from './support/chromium.js'

const IDENTITY: WorkerIdentity = {
  service: 'python_execute',
  version: '0.1.0',
  workerId: '5f0c1d2e3a4b',
  tier: 'namespaces',
  layers: [
    { name: 'user namespace', inForce: true },
    { name: 'seccomp', inForce: true },
    { name: '/proc of its own', inForce: false, why: 'EPERM: the container’s /proc is masked' },
  ],
  python: '3.13.5',
  node: '24.11.0',
}
let browser: Browser
beforeAll(async () => {
  browser = await launchChromium()
})
afterAll(() => browser?.close())

async function page(
  reasons: readonly string[],
  options: { readonly dark?: boolean; readonly width?: number },
): Promise<Page> {
  const status: WorkerStatus = {
    state: reasons.length === 0 ? 'serving' : 'impaired',
    reasons,
    impairments: [],
    slots: 8,
    running: 3,
    waiting: 0,
    outbox: { answers: reasons.length, oldestMs: 95_000 },
    journal: { writable: true, unsaved: 0 },
  }
  const recorder = new Recorder({ status: () => status, log: captureLog().log })
  const now = Date.now()
  for (const [n, changes] of [
    {},
    { status: 'failed', runMs: 1_200, totalMs: 1_260 },
    { status: 'timed_out', killedFor: 'wall', runMs: 60_000, totalMs: 60_100 },
    { status: 'completed', delivered: false, postAttempts: 9 },
  ].entries()) {
    recorder.callHandled({ ...CALL, at: now - n * 20_000, ...changes })
  }
  const server = await startHealthServer({
    host: '127.0.0.1',
    port: 0,
    view: () => ({ identity: IDENTITY, status, recorder }),
  })
  const context = await browser.newContext({
    colorScheme: options.dark === true ? 'dark' : 'light',
    viewport: { width: options.width ?? 1_100, height: 800 },
  })
  onTestFinished(async () => {
    await context.close()
    await server.close()
    recorder.close()
  })
  const opened = await context.newPage()
  await opened.goto(server.url)
  return opened
}

describe('the page at /', () => {
  it.each([
    ['light', [], {}],
    ['dark', [], { dark: true }],
    ['narrow', ['backend: the key is refused (403)'], { width: 360 }],
  ] as const)('is readable: %s', async (name, reasons, options) => {
    const shown = await page(reasons, options)
    if (SCREENSHOTS !== undefined) await shown.screenshot({ path: `${SCREENSHOTS}/status-${name}.png`, fullPage: true })
    expect(await shown.title()).toBe(`${reasons.length === 0 ? 'serving' : 'not ready'} · python_execute`)
    expect(await shown.locator('.state').textContent()).toContain(reasons[0] ?? 'serving')
    expect(await shown.locator('tbody tr').count()).toBe(4)
    // Nothing but the table of calls, which has a scroll bar of its own, is wider than the window.
    const wider = 'document.documentElement.scrollWidth > document.documentElement.clientWidth'
    expect(await shown.evaluate(wider)).toBe(false)
  })

  it('refreshes itself', async () => {
    const shown = await page([], {})
    const loads: string[] = []
    shown.on('load', () => loads.push(shown.url()))
    await expect.poll(() => loads.length, { timeout: 15_000 }).toBeGreaterThan(0)
  })
})
