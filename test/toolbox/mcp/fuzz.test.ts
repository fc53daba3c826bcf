import type { JSONRPCMessage } from '@modelcontextprotocol/sdk/types.js'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { EventReader } from '../../../src/toolbox/mcp/event-stream.js'
import { LineReader } from '../../../src/toolbox/mcp/line-reader.js'
import { MessageGate } from '../../../src/toolbox/mcp/message-gate.js'

/** What throws in a stream's handler ends the worker: whatever a server sends, the readers and the gate must not. */
const RUNS = 300

const key = fc.oneof(
  fc.constantFrom('jsonrpc', 'id', 'result', 'error', 'method', 'params', 'code', 'message', 'toString', 'valueOf'),
  fc.constantFrom('__proto__', 'constructor', 'then', '_meta', 'toJSON', 'progressToken'),
)
const { value } = fc.letrec<{ value: unknown }>(tie => ({
  value: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    fc.constantFrom<unknown>(null, true, 0, 1, 2, -1, 1.5, 1e300, '', '1', '2.0', 'notifications/cancelled', 'ping'),
    fc.constantFrom('notifications/tools/list_changed', 'tools/call', '1'.repeat(400)),
    fc.array(tie('value'), { maxLength: 3 }),
    fc.dictionary(key, tie('value'), { maxKeys: 5 }),
    fc.record({ jsonrpc: fc.constant('2.0'), id: fc.oneof(fc.constant(1), tie('value')), error: tie('value') }),
    fc.record({ jsonrpc: fc.constant('2.0'), id: fc.oneof(fc.constant(1), tie('value')), result: tie('value') }),
    fc.record({ jsonrpc: fc.constant('2.0'), method: tie('value'), id: tie('value'), params: tie('value') }),
  ),
}))

function gateOf(delivered: JSONRPCMessage[]): MessageGate {
  const gate = new MessageGate({
    deliver: message => {
      delivered.push(message)
      throw new Error('a client that fails')
    },
    onToolsChanged: () => {},
    now: () => 0,
  })
  gate.sent({ jsonrpc: '2.0', id: 1, method: 'tools/call' })
  return gate
}

test('a gate takes any value of JSON, and gives an answer only to what was asked, once', () => {
  fc.assert(
    fc.property(fc.array(value, { maxLength: 6 }), values => {
      const delivered: JSONRPCMessage[] = []
      const gate = gateOf(delivered)
      for (const one of values) gate.received(JSON.parse(JSON.stringify(one)))
      const answers = delivered.filter(message => !('method' in message))
      expect(answers.length).toBeLessThanOrEqual(1)
      for (const answer of answers) expect(answer).toMatchObject({ id: 1 })
    }),
    { numRuns: RUNS },
  )
})

/** Pieces of what servers send, joined and cut anywhere. */
const bytes = fc
  .array(
    fc.oneof(
      fc.constantFrom(
        '\n',
        '\r\n',
        '\n\n',
        ':',
        'data:',
        'data: {"id":1}',
        'id: 1',
        'id:\0',
        'event: message',
        '{',
        '[',
      ),
      fc.constantFrom('{"jsonrpc":"2.0","id":1,"result":{}}', '"id":1}', 'x'.repeat(700), '\ufeff', 'ü', '😀'),
      value.map(one => JSON.stringify(one)),
      fc.uint8Array({ maxLength: 20 }).map(part => Buffer.from(part).toString('latin1')),
    ),
    { maxLength: 20 },
  )
  .map(parts => Buffer.from(parts.join('')))

function pieces(whole: Buffer, sizes: readonly number[]): Buffer[] {
  const found: Buffer[] = []
  let from = 0
  for (let n = 0; from < whole.length; n++) {
    const size = sizes[n % sizes.length] ?? 1
    found.push(whole.subarray(from, from + size))
    from += size
  }
  return found
}

const cut = fc.array(fc.integer({ min: 1, max: 50 }), { minLength: 1, maxLength: 5 })

test('lines of any bytes are the same however they are cut, and none is longer than the bound', () => {
  const linesOf = (parts: readonly Buffer[]) => {
    const lines: string[] = []
    const gate = gateOf([])
    const reader = new LineReader(600, {
      line: line => {
        expect(line.length).toBeLessThanOrEqual(600)
        lines.push(line.toString('latin1'))
      },
      empty: () => lines.push(''),
      oversized: (head, tail) => {
        gate.oversized(head, tail)
        lines.push(`${head.toString('latin1')}…${tail.toString('latin1')}`)
      },
      discarded: count => expect(count).toBeGreaterThan(0),
    })
    for (const part of parts) reader.push(part)
    reader.end()
    return lines
  }
  fc.assert(
    fc.property(bytes, cut, (whole, sizes) => {
      expect(linesOf(pieces(whole, sizes))).toEqual(linesOf([whole]))
    }),
    { numRuns: RUNS },
  )
})

test('events of any bytes are the same however they are cut, and none is longer than the bound', () => {
  const eventsOf = (parts: readonly Buffer[]) => {
    const events: unknown[] = []
    const gate = gateOf([])
    const reader = new EventReader(600, {
      event: event => {
        expect(Buffer.byteLength(event.data)).toBeLessThanOrEqual(3 * 600) // bytes that are no UTF-8 take three each
        events.push(event)
      },
      oversized: (head, tail) => {
        gate.oversized(head, tail)
        events.push('too large')
      },
      discarded: () => {},
      nothing: () => {},
    })
    for (const part of parts) reader.push(part)
    return events
  }
  fc.assert(
    fc.property(bytes, cut, (whole, sizes) => {
      expect(eventsOf(pieces(whole, sizes))).toEqual(eventsOf([whole]))
    }),
    { numRuns: RUNS },
  )
})
