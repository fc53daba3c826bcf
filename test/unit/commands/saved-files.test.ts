import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { saveFiles } from '../../../src/commands/saved-files.js'

describe('files of a run that are saved', () => {
  let folder = ''
  beforeEach(async () => {
    folder = await mkdtemp(path.join(tmpdir(), 'saved-files-'))
  })
  afterEach(() => rm(folder, { recursive: true, force: true }))

  const save = async (...names: string[]) => {
    const { lines } = await saveFiles({
      parts: [],
      collected: names.map(name => ({
        path: name,
        bytes: 1,
        mime: 'text/plain',
        content: Buffer.from('x'),
        why: null,
      })),
      output: folder,
    })
    return lines
  }

  test('do not keep each other back where one of them can not be written', async () => {
    await writeFile(path.join(folder, 'figures'), "a file of the person's")
    const long = 'n'.repeat(256)
    const lines = await save('figures/a.txt', `b/${long}`, 'result.csv')
    expect(lines[0]).toMatch(/^not saved: .*figures\/a\.txt: there is a file where a folder must be/)
    expect(lines[1]).toMatch(/^not saved: /)
    expect(lines[2]).toMatch(/^saved .*result\.csv \(1 byte\)$/)
  })

  test('are never hidden ones, which a program of the person may obey', async () => {
    const lines = await save('.envrc', '.git/hooks/post-commit', 'project/.vscode/tasks.json', '../up', 'plain.txt')
    expect(lines.map(line => line.startsWith('not saved: '))).toEqual([true, true, true, true, false])
    expect(await readdir(folder)).toEqual(['plain.txt'])
  })
})
