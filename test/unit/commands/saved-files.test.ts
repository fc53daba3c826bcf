import { mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { saveFiles } from '../../../src/commands/saved-files.js'
import type { CollectedFile } from '../../../src/outcome.js'

describe('files of a run that are saved', () => {
  let folder = ''
  beforeEach(async () => {
    folder = await mkdtemp(path.join(tmpdir(), 'saved-files-'))
  })
  afterEach(() => rm(folder, { recursive: true, force: true }))

  const made = (name: string, content: string | null = 'x'): CollectedFile => ({
    path: name,
    bytes: 1,
    mime: 'text/plain',
    content: content === null ? null : Buffer.from(content),
    why: content === null ? 'larger than 128 MiB' : null,
  })
  const save = (files: CollectedFile[], output: string | null = folder, isAll = true) =>
    saveFiles({ parts: [], collected: { files, isAll }, output })

  test('do not keep each other back where one of them can not be written', async () => {
    await writeFile(path.join(folder, 'figures'), "a file of the person's")
    const long = 'n'.repeat(256)
    const { lines, hasFailed } = await save([made('figures/a.txt'), made(`b/${long}`), made('result.csv')])
    expect(hasFailed).toBe(true)
    expect(lines[0]).toMatch(/^not saved: .*figures\/a\.txt: there is a file where a folder must be/)
    expect(lines[1]).toMatch(/^not saved: /)
    expect(lines[2]).toMatch(/^saved .*result\.csv \(1 byte\)$/)
  })

  test('are never hidden ones, which a program of the person may obey', async () => {
    const names = ['.envrc', '.git/hooks/post-commit', 'project/.vscode/tasks.json', '../up', 'plain.txt']
    const { lines, hasFailed } = await save(names.map(name => made(name)))
    expect(lines.map(line => line.startsWith('not saved: '))).toEqual([true, true, true, true, false])
    expect(hasFailed).toBe(true)
    expect(await readdir(folder)).toEqual(['plain.txt'])
  })

  test('are the images alone without a folder for them, as they were made, whatever was shown of them', async () => {
    const here = process.cwd()
    process.chdir(folder)
    try {
      const image = { ...made('plot.png', 'large'), mime: 'image/png' }
      const shown = { m_type: 'image/png', m_content: Buffer.from('small').toString('base64') }
      const { lines } = await saveFiles({
        parts: [shown],
        collected: { files: [image, made('a.csv')], isAll: true },
        output: null,
      })
      expect(lines).toEqual([
        'saved plot.png (5 bytes)',
        'saved figure-1.png (5 bytes)',
        'not saved: a.csv; --output DIR saves files, up to 128 MiB',
      ])
      expect(await readFile('plot.png', 'utf8')).toBe('large')
    } finally {
      process.chdir(here)
    }
  })

  test('have failed where one was too large, or was not even listed, or has a name that is taken over and over', async () => {
    expect(await save([made('big.bin', null), made('a')])).toMatchObject({
      hasFailed: true,
      lines: ['not saved: big.bin: larger than 128 MiB', expect.stringMatching(/^saved /)],
    })
    expect(await save([made('b')], folder, false)).toMatchObject({
      hasFailed: true,
      lines: [expect.stringMatching(/^saved /), 'not saved: files that are not listed'],
    })
    await Promise.all(
      Array.from({ length: 1_000 }, (_, n) => writeFile(path.join(folder, `c${n ? `-${n + 1}` : ''}`), '')),
    )
    expect(await save([made('c')])).toMatchObject({
      hasFailed: true,
      lines: [expect.stringMatching(/there are 1000 of that name already$/)],
    })
    expect((await save([made('d')])).hasFailed).toBe(false)
  })

  test('are named where no folder was given, and hidden ones apart, as a folder would not have them', async () => {
    expect(await save([made('a.csv', null), made('.env', null)], null, false)).toEqual({
      hasFailed: false,
      lines: [
        'not saved: a.csv; --output DIR saves files, up to 128 MiB',
        'not saved: .env: no name for a file outside of the sandbox, as it is hidden or leads elsewhere',
      ],
    })
  })
})
