import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Browser } from 'playwright-core'
import { afterAll, afterEach, beforeAll, describe, expect, it, onTestFinished } from 'vitest'
import { endPrograms } from '../e2e/support/worker-process.js'
import { launchChromium } from './support/chromium.js'
import { LIMIT_MS, openPage, startDev } from './support/dev-page.js'

let browser: Browser
beforeAll(async () => {
  browser = await launchChromium()
})
afterEach(endPrograms)
afterAll(() => browser?.close())

const STEADY = 'import time\nfor n in range(2_500):\n    print("line", n)\n    time.sleep(0.02)\n'
const SLOW = 'import time\nfor n in range(10):\n    print("line", n)\n    time.sleep(0.3)\n'

describe('the page of dev', () => {
  it('shows how the worker recovers, and finds what it missed itself', async () => {
    const { program, url } = await startDev(['--port', '0'])
    const shown = await openPage(browser, url)
    await shown.openBreakPanel()
    const happened = (text: string) =>
      shown.page.locator('.activity').getByText(text).first().waitFor({ timeout: LIMIT_MS })

    // The websockets are gone while code runs: it runs on, and its result comes once.
    await shown.run(SLOW)
    await shown.output.getByText('line 1').waitFor({ timeout: LIMIT_MS })
    await shown.button('Drop websockets').click()
    await happened('you dropped the websockets')
    await shown.isIn('completed')
    await shown.says(/line 9/)
    await shown.connected()

    // The result is refused until it no longer is.
    await shown.button('Refuse results').click()
    await shown.run('print("kept")')
    await happened('a post of a result was refused with 503')
    await shown.isIn('running')
    await shown.button('Refuse results').click()
    await shown.isIn('completed')

    // No websocket is let in: the call waits until one is again, and the worker tries later and later.
    await shown.button('Refuse websockets').click()
    await shown.button('Drop websockets').click()
    await happened('graphql websocket refused (503)')
    await shown.run('print("let in")')
    await shown.isIn('waiting')
    await shown.button('Refuse websockets').click()
    await shown.isIn('completed')
    await shown.connected()

    // The backend neither reads nor sends for a while, on connections that stay open.
    await shown.button('Go silent').click()
    await shown.run('print("heard again")')
    await shown.isIn('waiting')
    expect(await shown.button('Go silent').getAttribute('aria-pressed')).toBe('true')
    await shown.button('Go silent').click()
    await shown.isIn('completed')

    // The page itself is loaded anew in the middle of a call, and its editor has what it had.
    await shown.run(SLOW)
    await shown.output.getByText('line 1').waitFor({ timeout: LIMIT_MS })
    await shown.page.reload()
    await shown.connected()
    await shown.isIn('completed')
    await shown.says(/^line 0\n[\s\S]*line 9\n$/)
    expect(await shown.editor.textContent()).toContain('line')

    // The server is gone and comes again on its port.
    await shown.run('import time\ntime.sleep(60)')
    await shown.isIn('running')
    program.child.kill('SIGKILL')
    await shown.page.getByText('server does not answer').waitFor({ timeout: LIMIT_MS })
    expect(await shown.button('Run').isDisabled()).toBe(true)
    await startDev(['--port', new URL(url).port])
    await shown.connected()
    await shown.page.getByText('The server was started anew. What').waitFor({ timeout: LIMIT_MS })
    await shown.isIn('lost')
    await shown.run('print("again")')
    await shown.isIn('completed')
  }, 120_000)

  it('shows output as it comes after a reload, also where the way to what it lacks is long', async () => {
    const { url } = await startDev(['--port', '0'])
    const shown = await openPage(browser, url)
    await shown.run(STEADY)
    await shown.output.getByText('line 9').first().waitFor({ timeout: LIMIT_MS })
    let asked = 0
    await shown.page.route('**/dev/detail?*', async route => {
      asked += 1
      const response = await route.fetch()
      await new Promise(resolve => setTimeout(resolve, 200))
      await route.fulfill({ response })
    })
    await shown.page.reload()
    await shown.says(/^line 0\n[\s\S]*line 9\n/)
    const length = async () => (await shown.output.textContent())?.length ?? 0
    const first = await length()
    await expect.poll(length, { timeout: LIMIT_MS }).toBeGreaterThan(first)
    await shown.isIn('running')
    // One for the gap, and one more at most: where the state of the call changes meanwhile.
    expect(asked).toBeLessThanOrEqual(2)
    const lines = ((await shown.output.textContent()) ?? '').split('\n').slice(0, -1)
    expect(lines).toEqual(lines.map((_, n) => `line ${n}`))
    await shown.page.unrouteAll({ behavior: 'wait' })
    await shown.button('Stop').click()
    await shown.isIn('cancelled')
  }, 120_000)

  it('lets no other page run code, read a result, or put it into a frame', async () => {
    const { program, url } = await startDev(['--port', '0'])
    const attacker = createServer((_request, response) => {
      response.writeHead(200, { 'content-type': 'text/html' })
      response.end('<!doctype html><title>another site</title>')
    })
    attacker.listen(0, '127.0.0.1')
    await once(attacker, 'listening')
    const context = await browser.newContext()
    onTestFinished(async () => {
      await context.close()
      attacker.close()
    })
    const page = await context.newPage()
    const { port } = attacker.address() as AddressInfo
    for (const host of ['127.0.0.1', 'localhost']) {
      await page.goto(`http://${host}:${port}/`)
      expect(await page.evaluate(`(${ATTACK})(${JSON.stringify(url)})`)).toEqual({ posted: [], read: [] })
      // Neither a form, which navigates, nor a frame gets anywhere.
      await page.evaluate(`(${FRAME})(${JSON.stringify(url)})`)
      expect(page.frames().map(inside => inside.url())).not.toContain(url)
      await page.evaluate(`(${FORM})(${JSON.stringify(`${url}dev/run`)})`)
      await page.waitForURL(`${url}dev/run`)
      expect(await page.textContent('body')).toContain('another origin')
    }
    expect(program.stdout()).not.toContain('hacked')
    const shown = await openPage(browser, url)
    expect(await shown.page.locator('.calls li').count()).toBe(0)
  }, 120_000)
})

/** Run in the other page, where this project's TypeScript knows no types. What of it was answered. */
const ATTACK = `async url => {
  const body = JSON.stringify({ arguments: { code: 'print("hacked")', timeout_seconds: null } })
  const posted = []
  for (const path of ['dev/run', 'dev/call', 'dev/decide', 'dev/break']) {
    for (const type of ['application/json', 'text/plain']) {
      for (const mode of ['cors', 'no-cors']) {
        await fetch(url + path, { method: 'POST', mode, credentials: 'include', headers: { 'content-type': type }, body }).then(
          answer => answer.ok && posted.push(path),
          () => {},
        )
      }
    }
  }
  const read = []
  await new Promise(resolve => {
    const source = new EventSource(url + 'dev/events')
    source.onmessage = () => { read.push('events'); resolve() }
    source.onerror = () => { source.close(); resolve() }
  })
  await fetch(url).then(() => read.push('page'), () => {})
  return { posted, read }
}`
const FRAME = `url => new Promise(resolve => {
  const frame = document.createElement('iframe')
  frame.onload = () => resolve()
  frame.src = url
  document.body.append(frame)
})`
const FORM = `url => {
  const form = document.createElement('form')
  Object.assign(form, { action: url, method: 'post', enctype: 'text/plain' })
  document.body.append(form)
  form.submit()
}`
