import { describe } from 'vitest'
import { endings } from './support/endings.js'
import { children, language } from './support/language.js'
import { output } from './support/output.js'
import { robustness } from './support/robustness.js'
import { sharedRoom } from './support/shared-room.js'

describe('the namespaces tier', () => {
  const room = sharedRoom({ tier: 'namespaces' })
  describe('language', () => language(room))
  describe('children', () => children(room))
  describe('output', () => output('namespaces', room))
  describe('robustness', () => robustness('namespaces', room))
  describe('endings', () => endings('namespaces', room))
})
