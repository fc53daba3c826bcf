import { describe, expect, it } from 'vitest'
import { endings } from './support/endings.js'
import { children, language } from './support/language.js'
import { output } from './support/output.js'
import { robustness } from './support/robustness.js'
import { sharedRoom } from './support/shared-room.js'

describe('the namespaces tier', () => {
  const room = sharedRoom({ tier: 'namespaces' })

  it('shares no mount with anybody', async () => {
    const code = `from pathlib import Path
mounts = Path("/proc/self/mountinfo")
for line in mounts.read_text().splitlines() if mounts.exists() else ():
    if line.partition(" - ")[0].split()[6:]: print(line)`
    expect(await room().run(code)).toMatchObject({ status: 'completed', stdout: { text: '' } })
  })

  describe('language', () => language(room))
  describe('children', () => children(room))
  describe('output', () => output('namespaces', room))
  describe('robustness', () => robustness('namespaces', room))
  describe('endings', () => endings('namespaces', room))
})
