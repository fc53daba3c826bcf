import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { descendants } from '../../e2e/support/processes.js'
import { EVERYTHING, FILESYSTEM, failure, misbehaving, open } from './support/sources.js'

test('server-everything: tools with schemas and consent, results of every kind exactly as they were sent', async () => {
  const { entries, call, source } = open({
    command: process.execPath,
    args: [EVERYTHING],
    description: 'All kinds\nof',
  })
  expect(source.description).toBe('All kinds')
  const tools = new Map((await entries()).map(entry => [entry.name, entry]))
  expect(tools.get('echo')).toMatchObject({
    category: 'srv',
    consent: 'free',
    parameters: { type: 'object', properties: { message: { type: 'string' } }, required: ['message'] },
  })
  expect(tools.get('get-structured-content')?.returns).toMatchObject({ type: 'object' })
  // It can be run as a task only, and the problem says so.
  expect(tools.has('simulate-research-query')).toBe(false)
  expect(source.problem).toContain('simulate-research-query')

  const odd = `\u2028"\\ \u{1F600}\n${'ä'.repeat(100_000)}`
  expect(await call('echo', { message: odd })).toBe(`Echo: ${odd}`)
  expect(await call('get-structured-content', { location: 'New York' })).toEqual({
    temperature: 33,
    conditions: 'Cloudy',
    humidity: 82,
  })
  const image = (await call('get-tiny-image')) as { type: string; data?: string; mimeType?: string }[]
  expect(image.map(block => block.type)).toEqual(['text', 'image', 'text'])
  expect(image[1]).toMatchObject({ mimeType: 'image/png', data: expect.stringMatching(/^iVBOR/) })
  expect((await failure(call('get-sum', { a: 'one' }))).message).toMatch(/a|number/i)
})

test('server-filesystem: destructive tools ask unless the configuration says otherwise; its failures are in its words', async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'mcp-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  writeFileSync(path.join(folder, 'a.txt'), 'one\n')
  const server = { command: process.execPath, args: [FILESYSTEM, folder], deny: ['move_*'], free: ['edit_file'] }
  const { entries, call } = open(server)
  const consent = Object.fromEntries((await entries()).map(entry => [entry.name, entry.consent]))
  expect(consent).toMatchObject({
    read_text_file: 'free',
    list_directory: 'free',
    write_file: 'ask',
    edit_file: 'free',
    move_file: 'deny',
  })
  expect(await call('read_text_file', { path: path.join(folder, 'a.txt') })).toEqual({ content: 'one\n' })
  await call('write_file', { path: path.join(folder, 'b.txt'), content: 'two' })
  expect(readFileSync(path.join(folder, 'b.txt'), 'utf8')).toBe('two')
  expect((await failure(call('read_text_file', { path: '/etc/passwd' }))).message).toContain('Access denied')
})

test('what a list of the configuration names and the server does not have is told in the log', async () => {
  const { entries, lines } = open({ ...misbehaving('good'), deny: ['no_such_tool'] })
  await entries()
  expect(lines).toContainEqual(
    expect.objectContaining({
      msg: 'lists of a server name tools that it does not have',
      globs: ['deny: "no_such_tool" fits no tool'],
    }),
  )
})

test('at most the configured number of calls is with a server at once', async () => {
  const { call, names } = open({ ...misbehaving('good'), maxConcurrent: 2, timeoutMs: 700 })
  await names()
  const startMs = performance.now()
  const calls = Array.from({ length: 4 }, () => failure(call('hang')))
  const waiting = call('echo', { message: 'after them' })
  expect(await waiting).toBe('after them')
  expect(performance.now() - startMs).toBeGreaterThan(1_300)
  await Promise.all(calls)
})

test('nothing is started before its first use, and one start serves all who wait', async () => {
  const { source, names } = open(misbehaving('good'))
  expect(descendants(process.pid).filter(one => one.ppid === process.pid)).toEqual([])
  expect(source.problem).toBeNull()
  await Promise.all(Array.from({ length: 10 }, names))
  expect(descendants(process.pid).filter(one => one.ppid === process.pid)).toHaveLength(1)
  await source.close()
  expect(descendants(process.pid)).toEqual([])
})
