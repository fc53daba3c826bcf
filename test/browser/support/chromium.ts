import { existsSync } from 'node:fs'
import { type Browser, chromium } from 'playwright-core'

/** Debian's; CHROMIUM names another. */
const CHROMIUM = process.env['CHROMIUM'] ?? '/usr/bin/chromium'
/** Pictures go there where it is set. */
export const SCREENSHOTS = process.env['SCREENSHOTS']

export async function launchChromium(): Promise<Browser> {
  if (!existsSync(CHROMIUM))
    throw new Error(`no browser at ${CHROMIUM}: install Debian's chromium, or name one as CHROMIUM`)
  return await chromium.launch({ executablePath: CHROMIUM, args: ['--no-sandbox'] })
}
