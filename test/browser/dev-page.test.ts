import { readFile } from 'node:fs/promises'
import type { Browser } from 'playwright-core'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { endPrograms, type Program } from '../e2e/support/worker-process.js'
import { launchChromium, SCREENSHOTS } from './support/chromium.js'
import { faintTexts } from './support/contrast.js'
import { LIMIT_MS, openPage, startDev } from './support/dev-page.js'

let browser: Browser
let dev: { program: Program; url: string }

beforeAll(async () => {
  ;[browser, dev] = await Promise.all([launchChromium(), startDev()])
})
afterAll(async () => {
  await browser?.close()
  await endPrograms()
})

describe('the page of dev', () => {
  it('shows a plot to who comes for the first time and presses Ctrl+Enter', async () => {
    const shown = await openPage(browser, dev.url)
    await shown.page.keyboard.press('Control+Enter')
    await shown.isIn('completed')
    const plot = shown.result.getByRole('img', { name: 'Figure 1' })
    await plot.waitFor({ timeout: LIMIT_MS })
    const width = () => shown.page.evaluate('document.querySelector(".result img").naturalWidth')
    await expect.poll(width).toBeGreaterThan(300)
    const saved = shown.page.waitForEvent('download')
    await shown.result.getByRole('link', { name: 'Save' }).first().click()
    expect((await saved).suggestedFilename()).toBe('figure-1.png')
  })

  it('shows output while the code runs, and keeps it when the result comes', async () => {
    const shown = await openPage(browser, dev.url)
    await shown.run(
      'import time\nfor n in range(8):\n    print("\\033[31mline", n, "\\033[0m")\n    time.sleep(0.25)\n',
    )
    await shown.output.getByText('line 1').waitFor({ timeout: LIMIT_MS })
    await shown.isIn('running')
    expect(await shown.output.textContent()).not.toContain('line 7')
    await shown.isIn('completed')
    await shown.says(new RegExp(`^${[0, 1, 2, 3, 4, 5, 6, 7].map(n => `line ${n} \n`).join('')}$`))
    expect(await shown.output.locator('.ansi-red').count()).toBeGreaterThan(0)
  })

  it('shows how code failed', async () => {
    const shown = await openPage(browser, dev.url)
    await shown.example('Error')
    await shown.isIn('failed')
    await shown.says(/the average of three: 4\.0[\s\S]*ZeroDivisionError/)
  })

  it('asks a person, and runs after a yes', async () => {
    const shown = await openPage(browser, dev.url)
    await shown.example('Asks for approval')
    await shown.isIn('needs approval')
    const approval = shown.page.getByRole('region', { name: 'Approval' })
    expect(await approval.textContent()).toContain('letting it call files.patch')
    await shown.button('Approve').click()
    await shown.isIn('completed')
    await shown.says(/The meeting is on Tuesday\./)
    await shown.result.getByText('Tool calls').click()
    expect(await shown.result.getByRole('cell', { name: 'files.patch' }).count()).toBe(1)
  })

  it('runs nothing after a no', async () => {
    const shown = await openPage(browser, dev.url)
    await shown.example('Asks for approval')
    await shown.isIn('needs approval')
    await shown.button('Decline').click()
    await shown.isIn('declined')
    await shown.says(/declined/)
    expect(await shown.output.textContent()).not.toContain('Tuesday')
  })

  it('offers what code has made to be saved, and gives it to the next call', async () => {
    const shown = await openPage(browser, dev.url)
    await shown.run('open("<b>ümlaut .csv", "w").write("a,b\\n")')
    await shown.isIn('completed')
    const link = shown.result.getByRole('link', { name: '<b>ümlaut .csv' })
    const saved = shown.page.waitForEvent('download')
    await link.click({ timeout: LIMIT_MS })
    expect((await saved).suggestedFilename()).toBe('_b_ümlaut .csv')
    expect(await readFile(await (await saved).path(), 'utf8')).toBe('a,b\n')
    await shown.run('print(open("<b>ümlaut .csv").read())')
    await shown.says(/a,b/)
    await shown.button('New thread').click()
    await shown.run('import os\nprint(os.listdir("."))')
    await shown.says(/^\[\]/)
  })

  it('stops a call that runs', async () => {
    const shown = await openPage(browser, dev.url)
    await shown.run('print("begun")\nwhile True:\n    pass')
    await shown.output.getByText('begun').waitFor({ timeout: LIMIT_MS })
    await shown.button('Stop').click()
    await shown.isIn('cancelled')
    await shown.says(/begun[\s\S]*stopped by the person at the page/)
  })

  it('sends the time limit that is typed in', async () => {
    const shown = await openPage(browser, dev.url)
    await shown.page.getByLabel('timeout_seconds').fill('1')
    await shown.run('import time\ntime.sleep(30)')
    await shown.isIn('timed out')
  })

  it('shows what code prints as text, whatever it is', async () => {
    const shown = await openPage(browser, dev.url)
    const text = '<img src=x onerror="document.title=1"><script>document.title=2</script>\u202e'
    await shown.run(`print(${JSON.stringify(text)}, "\\033]0;title\\007\\033[2J\\x00done")`)
    await shown.isIn('completed')
    await shown.says(/done/)
    expect(await shown.output.textContent()).toContain(`${text.slice(0, -1)}\ufffd \u2400done`)
    expect(await shown.output.locator('img, script').count()).toBe(0)
    expect(await shown.page.title()).toBe('python_execute · dev')
  })

  it('stays quick while much is printed', async () => {
    const shown = await openPage(browser, dev.url)
    await shown.run('for n in range(4000):\n    print(f"{n:05}", "x" * 56)\nprint("end")')
    let slowestMs = 0
    while (!(await shown.result.locator('header').textContent())?.includes('completed')) {
      const from = performance.now()
      await shown.page.evaluate('new Promise(resolve => requestAnimationFrame(resolve))')
      slowestMs = Math.max(slowestMs, performance.now() - from)
    }
    expect(slowestMs).toBeLessThan(2_000)
    await shown.output.getByText('end').waitFor({ timeout: LIMIT_MS })
    await shown.result.getByText('Save all that was streamed').waitFor()
  })

  it('is used by keyboard alone: Tab indents, Escape leaves the editor, arrows go through the calls', async () => {
    const shown = await openPage(browser, dev.url)
    await shown.run('print(1)')
    await shown.isIn('completed')
    await shown.editor.click()
    await shown.page.keyboard.press('Control+A')
    await shown.page.keyboard.press('Tab')
    expect(await shown.editor.textContent()).toContain('    print(1)')
    await shown.page.keyboard.press('Shift+Tab')
    expect(await shown.editor.textContent()).toBe('print(1)')
    await shown.page.keyboard.press('Escape')
    const focused = () => shown.page.evaluate('document.activeElement.textContent')
    expect(await focused()).toBe('Run')
    const calls = shown.page.locator('.calls button')
    const before = await calls.count()
    await shown.page.keyboard.press('Enter')
    await expect.poll(() => calls.count(), { timeout: LIMIT_MS }).toBe(before + 1)
    await shown.isIn('completed')
    await calls.first().focus()
    await shown.page.keyboard.press('ArrowDown')
    expect(await focused()).toBe(await calls.nth(1).textContent())
    await shown.page.keyboard.press('Enter')
    expect(await calls.nth(1).getAttribute('aria-current')).toBe('true')
  })

  it.each([
    ['light', { colorScheme: 'light', viewport: { width: 1_280, height: 860 } }],
    ['dark', { colorScheme: 'dark', viewport: { width: 1_280, height: 860 } }],
    ['narrow', { colorScheme: 'light', viewport: { width: 390, height: 844 } }],
    ['narrow-dark', { colorScheme: 'dark', viewport: { width: 360, height: 740 } }],
  ] as const)('is readable: %s', async (name, options) => {
    const shown = await openPage(browser, dev.url, options)
    await shown.page.keyboard.press('Control+Enter')
    await shown.isIn('completed')
    await shown.result.getByRole('img').first().waitFor({ timeout: LIMIT_MS })
    if (SCREENSHOTS !== undefined) {
      await shown.page.screenshot({ path: `${SCREENSHOTS}/dev-${name}.png`, fullPage: name.startsWith('narrow') })
    }
    await shown.result.getByText('Provenance').click()
    await shown.openBreakPanel()
    await shown.button('Refuse results').click()
    await shown.example('Error')
    await shown.page.locator('.connection', { hasText: 'broken' }).waitFor()
    const wider = 'document.documentElement.scrollWidth > document.documentElement.clientWidth'
    expect(await shown.page.evaluate(wider)).toBe(false)
    if (SCREENSHOTS !== undefined) {
      await shown.page.screenshot({ path: `${SCREENSHOTS}/dev-${name}-open.png`, fullPage: true })
    }
    const faint = await faintTexts(shown.page)
    await shown.button('Refuse results').click()
    await shown.isIn('failed')
    expect(faint).toEqual([])
  })
})
