import { expect, it } from 'vitest'
import { safeFileName } from '../../../src/dev/file-name.js'

it.each([
  ['plot.png', 'plot.png'],
  ['results/ümlaut table.csv', 'ümlaut table.csv'],
  ['../../.bashrc', 'bashrc'],
  ['C:\\windows\\con.txt', '_con.txt'],
  ['invoice\u202efdp.exe', 'invoice_fdp.exe'],
  ['a"b<c>\n.csv', 'a_b_c__.csv'],
  ['report.txt. ', 'report.txt'],
  ['..', 'file'],
  ['', 'file'],
  [`${'x'.repeat(300)}.csv`, `${'x'.repeat(96)}.csv`],
])('%j is saved as %j', (path, name) => {
  expect(safeFileName(path)).toBe(name)
})
