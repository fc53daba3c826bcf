import type { Browser, BrowserContextOptions, Locator, Page } from 'playwright-core'
import { expect, onTestFinished, vi } from 'vitest'
import { type Program, startProgram } from '../../e2e/support/worker-process.js'

/** For what takes a sandbox, on a machine that does much else. */
export const LIMIT_MS = 30_000

/**
 * That a server is away, which is what some tests are about. And what Chromium's own editing would like to do where all of an editable text is
 * selected and typed over: to keep its colour by a style attribute, which the policy forbids and the editor has no use for.
 */
const EXPECTED = /net::ERR_|^Applying inline style/

/** `dev` as it is built, with its libraries; the address of its page. */
export async function startDev(args: readonly string[] = []): Promise<{ program: Program; url: string }> {
  const program = await startProgram(['dev', ...args], { SANDBOX_PRELOAD: 'numpy,matplotlib.pyplot' })
  const address = () => /Open (http:\S+) in a browser/.exec(program.stdout())?.[1] ?? ''
  await vi.waitFor(
    () => {
      if (address() !== '' && program.stdout().includes('registered')) return
      throw new Error(`dev is not up:\n${program.stdout()}${program.stderr()}`)
    },
    { timeout: LIMIT_MS, interval: 50 },
  )
  return { program, url: address() }
}

/** The page in a window of its own; the test fails where the page logs an error or breaks its own policy. */
export async function openPage(browser: Browser, url: string, options: BrowserContextOptions = {}): Promise<DevPage> {
  const context = await browser.newContext(options)
  const page = await context.newPage()
  const faults: string[] = []
  page.on('pageerror', error => faults.push(error.message))
  page.on('console', message => {
    if (message.type() === 'error' && !EXPECTED.test(message.text())) faults.push(message.text())
  })
  onTestFinished(async () => {
    await context.close()
    expect(faults).toEqual([])
  })
  await page.goto(url)
  const opened = new DevPage(page)
  await opened.connected()
  return opened
}

export class DevPage {
  readonly page: Page

  constructor(page: Page) {
    this.page = page
  }

  async connected(): Promise<void> {
    await this.page.locator('.connection', { hasText: 'worker connected' }).waitFor({ timeout: LIMIT_MS })
  }

  get editor(): Locator {
    return this.page.getByRole('textbox', { name: 'Python code' })
  }

  get result(): Locator {
    return this.page.getByRole('article', { name: 'Result of the call' })
  }

  get output(): Locator {
    return this.result.locator('section.output').first()
  }

  button(name: string): Locator {
    return this.page.getByRole('button', { name, exact: true })
  }

  /** Puts the code into the editor and runs it from there, all by keyboard. */
  async run(code: string): Promise<void> {
    const before = await this.page.locator('.calls li').count()
    await this.editor.click()
    await this.page.keyboard.press('Control+A')
    await this.page.keyboard.insertText(code)
    await this.page.keyboard.press('Control+Enter')
    await expect.poll(() => this.page.locator('.calls li').count(), { timeout: LIMIT_MS }).toBe(before + 1)
  }

  async example(title: string): Promise<void> {
    await this.page.getByLabel('Example').selectOption({ label: title })
    await this.editor.focus()
    await this.page.keyboard.press('Control+Enter')
  }

  /** Waits until the output, or the result, of the call that is shown is such. */
  async says(expected: RegExp): Promise<void> {
    await expect.poll(() => this.output.textContent(), { timeout: LIMIT_MS }).toMatch(expected)
  }

  /** Waits until the call that is shown is in this state. */
  async isIn(state: string): Promise<void> {
    await this.result.locator('header .state', { hasText: state }).waitFor({ timeout: LIMIT_MS })
  }

  async openBreakPanel(): Promise<void> {
    await this.page.getByText('Break things').click()
  }
}
