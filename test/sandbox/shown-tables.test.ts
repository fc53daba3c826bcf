import { describe, expect, it } from 'vitest'
import { sharedRoom } from './support/shared-room.js'
import { SHOWING, texts } from './support/shown.js'

describe('tables', () => {
  const room = sharedRoom({ ...SHOWING, preload: ['pandas'] })
  const shown = async (code: string) => {
    const report = await room().run(`import pandas as pd, numpy as np\n${code}`)
    expect(report).toMatchObject({ status: 'completed', stderr: { text: '' } })
    expect(report.shown.leftOut).toEqual([])
    return report
  }
  const linesOf = async (code: string) => (await shown(code)).valueText?.split('\n') ?? []

  it('begin with shape and types, and have the index', async () => {
    const report = await shown('pd.DataFrame({"n": [1, 2], "x": [0.5, 1e10]}, index=["a", "b"])')
    expect(report.valueText).toBe(
      'DataFrame: 2 rows x 2 columns\ndtypes: n int64, x float64\n   n             x\na  1  5.000000e-01\nb  2  1.000000e+10',
    )
    expect(report.value).toBe('   n             x\na  1  5.000000e-01\nb  2  1.000000e+10')
  })

  it('do not hold up a run that has hundreds of thousands of columns', async () => {
    const code = 'import pandas as pd, numpy as np\npd.DataFrame(np.zeros((2, 200_000)))'
    const report = await room().run(code, { wallMs: 30_000 })
    expect(report.status).toBe('completed')
    expect(report.valueText).toContain('of all: float64 (200000)')
    expect(report.usage.run_ms).toBeLessThan(3_000)
  })

  it('are cut by rows', async () => {
    const lines = await linesOf('pd.DataFrame({"n": range(100_000)})')
    expect(lines).toHaveLength(2 + 1 + 21)
    expect([lines[0], lines[3], lines.at(-1)]).toEqual([
      'DataFrame: 100000 rows x 1 column',
      '0          0',
      '99999  99999',
    ])
  })

  it('are cut by columns, in the middle', async () => {
    const lines = await linesOf('pd.DataFrame(np.zeros((3, 300)))')
    expect(lines[1]).toMatch(
      /^dtypes: 0 float64, .*, 5 float64, … 288 more …, 294 float64, .*; of all: float64 \(300\)$/,
    )
    expect(lines[2]).toMatch(/^\s+0 .*5 +\.\.\. +294 .*299$/)
    expect(lines).toHaveLength(6)
  })

  it('have long cells cut, and stay below a length by having fewer rows', async () => {
    const lines = await linesOf('pd.DataFrame({f"c{n}": ["é" * 500] * 100 for n in range(30)})')
    expect(lines.join('\n').length).toBeLessThan(13_500)
    expect(lines[3]).toMatch(/^0 +é+\.\.\. /)
    expect(new Set(lines.slice(2).map(line => line.length)).size).toBe(1)
  })

  it('have as many rows and columns as the code asks for', async () => {
    expect(await linesOf('pd.set_option("display.max_rows", None)\npd.DataFrame({"n": range(80)})')).toHaveLength(83)
    expect(await linesOf('pd.set_option("display.max_rows", 4)\npd.Series(range(80))')).toHaveLength(1 + 5)
  })

  it('have cells as wide as the code asks for, as long as all of it is short enough', async () => {
    const ask = (width: string) => `pd.set_option("display.max_colwidth", ${width})\n`
    expect((await linesOf(`${ask('None')}pd.DataFrame({"t": ["y" * 3000]})`)).at(-1)).toMatch(/^0 +y{3000}$/)
    expect((await linesOf(`${ask('None')}pd.Series(["y" * 3000])`)).at(-1)).toMatch(/^0 +y{3000}$/)
    expect((await linesOf(`${ask('9')}pd.DataFrame({"t": ["y" * 99]})`)).at(-1)).toMatch(/^0 +y{5}\.\.\.$/)
    const many = await linesOf(`${ask('None')}pd.DataFrame({f"c{n}": ["y" * 9000] * 90 for n in range(30)})`)
    expect(many.join('\n').length).toBeLessThan(13_500)
    const series = await linesOf(`${ask('None')}pd.Series(["y" * 9000] * 90)`)
    expect([series.length, series.join('\n').length < 13_500]).toEqual([1 + 21, true])
  })

  it.each<[string, string, RegExp]>([
    [
      'an array with some that are no numbers',
      'np.r_[np.nan, np.arange(200.0)]',
      /float64, from 0\.0 to 199\.0 and 1 nan\n/,
    ],
    ['an array of none', 'np.full(200, np.nan)', /float64, all nan\n/],
    ['no rows', 'pd.DataFrame({"a": []})', /^DataFrame: 0 rows x 1 column\ndtypes: a float64$/],
    ['no columns', 'pd.DataFrame(index=[1])', /^DataFrame: 1 row x 0 columns\nindex: /],
    [
      'levels',
      'pd.DataFrame({("a", "b"): [1]}, index=pd.MultiIndex.from_tuples([(1, 2)], names=["i", "j"]))',
      /^DataFrame: 1 row x 1 column\ndtypes: \('a', 'b'\) int64\n/,
    ],
    ['columns of one name', 'pd.DataFrame([[1, "x"]], columns=["a", "a"])', /dtypes: a int64, a object/],
    ['a series', 'pd.Series([1, 2], name="s")', /^Series 's': 2 values, int64\n0 +1\n1 +2$/],
    ['a series of long texts', 'pd.Series(["y" * 99] * 99)', /^Series: 99 values, object\n0 +y+\.\.\.\n/],
    [
      'an array',
      'np.arange(1000.0).reshape(10, 100)',
      /^ndarray: shape \(10, 100\), float64, from 0\.0 to 999\.0\n\[\[/,
    ],
  ])('show %s', async (_what, code, text) => {
    expect((await shown(code)).valueText).toMatch(text)
  })

  it('are not made of what is short without', async () => {
    const report = await shown('np.arange(3)')
    expect(report).toMatchObject({ value: 'array([0, 1, 2])', valueText: null })
  })

  it('are shown by display() and of a Styler as well', async () => {
    const report = await shown('display(pd.DataFrame({"a": [1]}))\npd.DataFrame({"a": [1]}).style.format("{:.2f}")')
    expect(texts(report)).toEqual(['DataFrame: 1 row x 1 column\ndtypes: a int64\n   a\n0  1'])
    expect(report.valueText).toBe('  | a\n0 | 1.00')
  })
})
