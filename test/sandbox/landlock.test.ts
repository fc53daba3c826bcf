import { describe } from 'vitest'
import { endings } from './support/endings.js'
import { language } from './support/language.js'
import { output } from './support/output.js'
import { robustness } from './support/robustness.js'
import { sharedRoom } from './support/shared-room.js'

describe('the landlock tier', () => {
  const room = sharedRoom({ tier: 'landlock' })
  describe('language', () => language(room))
  describe('output', () => output('landlock', room))
  describe('robustness', () => robustness('landlock', room))
  describe('endings', () => endings('landlock', room))
})
