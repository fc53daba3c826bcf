import { expect, test } from 'vitest'
import { editDistance } from '../../src/edit-distance.js'

test.each([
  ['', '', 0],
  ['code', 'code', 0],
  ['code', 'cod', 1],
  ['code', 'kode', 1],
  ['code', 'codes', 1],
  ['code', 'coed', 1], // neighbours that changed places
  ['', 'abc', 3],
])('%j becomes %j with %d changes', (a, b, changes) => {
  expect(editDistance(a, b)).toBe(changes)
  expect(editDistance(b, a)).toBe(changes)
})
