import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { pino } from 'pino'
import { expect, it, onTestFinished, vi } from 'vitest'
import { openFiles } from '../../../src/commands/files.js'
import { loadConfig } from '../../../src/config.js'
import { readHostFacts } from '../../../src/host.js'

it('tell at the start of a directory that can not be used, by its name', async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'files-open-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  writeFileSync(path.join(folder, 'taken'), '')
  const place = path.join(folder, 'taken/files')
  const config = loadConfig({ FILES_DIR: place }, readHostFacts(), { backend: false })
  const lines: Record<string, unknown>[] = []
  const log = pino({}, { write: line => lines.push(JSON.parse(line)) })
  const kept = await openFiles(config, 'state', log)
  onTestFinished(async () => await kept?.close())
  await vi.waitFor(() => expect(lines).toHaveLength(1))
  expect(lines[0]).toMatchObject({ level: 50, msg: 'files of chats can not be kept', place })
  expect(lines[0]?.['reason']).toMatch(/^the store can not be used \((ENOTDIR|EEXIST)\)$/)
})
