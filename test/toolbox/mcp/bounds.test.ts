import { describe, expect, test } from 'vitest'
import { Backoff } from '../../../src/toolbox/mcp/backoff.js'
import { resultValue } from '../../../src/toolbox/mcp/call-result.js'
import { EventReader } from '../../../src/toolbox/mcp/event-stream.js'
import { LineReader } from '../../../src/toolbox/mcp/line-reader.js'
import { Pace } from '../../../src/toolbox/mcp/pace.js'

/** Pushes a text in pieces of each size, which must make no difference. */
function inPieces(text: string, push: (size: number) => (chunk: Buffer) => void): void {
  for (const size of [1, 3, 7, 10_000]) {
    const bytes = Buffer.from(text)
    const take = push(size)
    for (let i = 0; i < bytes.length; i += size) take(bytes.subarray(i, i + size))
  }
}

test('lines are told whole however they come, and those beyond the bound by their ends', () => {
  const seen: string[][] = []
  inPieces(`a\r\n\nüb\n${'x'.repeat(2_000)}END\nlast\n`, () => {
    const lines: string[] = []
    seen.push(lines)
    const reader = new LineReader(1_000, {
      line: bytes => void lines.push(bytes.toString()),
      empty: () => void lines.push('(empty)'),
      oversized: (head, tail) => void lines.push(`${head.length} ${tail.length} ${tail.toString().slice(-4)}`),
    })
    return chunk => reader.push(chunk)
  })
  for (const lines of seen) expect(lines).toEqual(['a', '(empty)', 'üb', '512 512 xEND', 'last'])
})

test('a line that comes byte by byte takes no more memory than one that comes at once', () => {
  const lines: number[] = []
  const reader = new LineReader(16 * 1024 * 1024, {
    line: bytes => void lines.push(bytes.length),
    oversized: () => {},
  })
  const before = process.memoryUsage().rss
  // Each with memory of its own, as they come from a pipe.
  for (let n = 0; n < 500_000; n++) reader.push(Buffer.from(new Uint8Array([120]).buffer))
  expect((process.memoryUsage().rss - before) / 1024 / 1024).toBeLessThan(120)
  reader.push(Buffer.from('\n'))
  expect(lines).toEqual([500_000])
})

test('events are read as the standard has them, and those beyond the bound are told by their ends', () => {
  const seen: unknown[][] = []
  const large = `data: {"id":7,${'x'.repeat(700)}\n`
  inPieces(
    `: hi\n\nid: 1\ndata: a\ndata:b\n\nevent: other\ndata: no\n\ndata: c\r\n\r\n${large}${large}\n${large}\n`,
    () => {
      const events: unknown[] = []
      seen.push(events)
      const reader = new EventReader(1_000, {
        event: event => void events.push(event),
        oversized: head => void events.push(head.toString().slice(0, 7)),
        discarded: () => {},
        nothing: () => {},
      })
      return chunk => reader.push(chunk)
    },
  )
  for (const events of seen) {
    expect(events.slice(0, 3)).toEqual([{ data: 'a\nb', id: '1' }, { data: 'c', id: '1' }, '{"id":7'])
    expect(events).toHaveLength(4)
  }
})

test('each line of an event beyond its first counts as one that says nothing, also in an event beyond the bound', () => {
  let nothing = 0
  const reader = new EventReader(100, {
    event: () => {},
    oversized: () => {},
    discarded: () => {},
    nothing: () => void nothing++,
  })
  reader.push(Buffer.from('data: {}\n\n'))
  expect(nothing).toBe(0)
  reader.push(Buffer.from('data:\n'.repeat(10_000)))
  expect(nothing).toBeGreaterThan(9_990)
})

test('pauses grow from one second to sixty, and start anew after a minute of health', () => {
  const backoff = new Backoff(() => 1)
  const pauses = Array.from({ length: 8 }, () => backoff.failed(0) / 1_000)
  expect(pauses).toEqual([1, 2, 4, 8, 16, 32, 60, 60])
  expect(backoff.failed(59_000)).toBe(60_000)
  expect(backoff.failed(60_000)).toBe(1_000)
  expect(new Backoff(() => 0.25).failed(0)).toBe(250)
})

test('what nobody asked for is read at 5 MiB or 10 000 messages a second', () => {
  let nowMs = 0
  const pace = new Pace(() => nowMs)
  for (let i = 0; i < 4_000; i++) pace.unsolicited(10)
  expect(pace.pauseMs).toBe(0)
  for (let i = 0; i < 10_240; i++) pace.unsolicited(10)
  expect(pace.pauseMs).toBeGreaterThan(900)
  expect(pace.pauseMs).toBeLessThan(1_100)
  nowMs = 3_000
  expect(pace.pauseMs).toBe(0)
})

describe('results', () => {
  const text = (words: string) => ({ type: 'text', text: words })

  test.each([
    [{ content: [] }, null],
    [{ content: [text('')] }, ''],
    [{ content: [text('a'), text('b')] }, [text('a'), text('b')]],
    [{ content: [text('a')], structuredContent: { x: [null] } }, { x: [null] }],
    [{ content: [text('a')], structuredContent: null }, 'a'],
    [{ content: [{ type: 'resource', resource: { uri: 'x' } }] }, [{ type: 'resource', resource: { uri: 'x' } }]],
  ])('%j is %j', (result, value) => {
    expect(resultValue(result)).toEqual(value)
  })

  test('that nest without end fail with words, and not by a full stack', () => {
    const nested = (levels: number) => JSON.parse(`${'['.repeat(levels)}${']'.repeat(levels)}`)
    expect(() => resultValue({ content: [], structuredContent: nested(300_000) })).toThrow('more than 500 levels deep')
    expect(resultValue({ content: [], structuredContent: nested(400) })).toEqual(nested(400))
  })

  test('that are errors fail with their text', () => {
    expect(() => resultValue({ content: [text('no'), text('way')], isError: true })).toThrow('no\nway')
    expect(() => resultValue({ content: [], isError: true })).toThrow('the tool failed and does not say why')
  })
})
