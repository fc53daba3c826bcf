import { expect, it } from 'vitest'
import { parseRequest } from '../../src/toolbox/requests.js'

it('a call has the arguments that were sent, whatever they are called', () => {
  const kw = '{"__proto__":1,"constructor":{"__proto__":[]},"a":null}'
  const parsed = parseRequest(Buffer.from(`{"id":1,"op":"call","category":"c","tool":"t","args":[],"kw":${kw}}`))
  const call = parsed !== null && 'request' in parsed ? parsed.request : null
  expect(JSON.stringify(call?.op === 'call' ? call.kw : null)).toBe(kw)
})
