import { expect, it } from 'vitest'
import { mimeOf } from '../../../src/sandbox/mime.js'

it.each([
  ['plot.png', 'image/png'],
  ['deep/er/data.CSV', 'text/csv'],
  ['archive.tar.gz', 'application/gzip'],
  ['noextension', 'application/octet-stream'],
  ['folder.png/file', 'application/octet-stream'],
  ['.png', 'image/png'],
  ['odd\nname.json', 'application/json'],
  ['trailing.', 'application/octet-stream'],
  ['x.constructor', 'application/octet-stream'],
  ['', 'application/octet-stream'],
])('%j has the type %s', (path, type) => {
  expect(mimeOf(path)).toBe(type)
})
