import { describe, expect, it } from 'vitest'
import { Redactor } from '../../src/telemetry/redactor.js'
import { masked, maskedSource } from '../../src/toolbox/masked-source.js'
import { type ToolEntry, ToolFailure, type ToolSource } from '../../src/toolbox/tool-entry.js'

const SECRET = 'correct"horse-4711'
const DIGITS = '123456789012'
const redactor = new Redactor([SECRET, DIGITS])
const mask = (text: string) => redactor.mask(text)
const signal = new AbortController().signal

function sourceOf(call: ToolEntry['call']): ToolSource {
  const entry = (name: string): ToolEntry => ({
    category: 'srv',
    name,
    description: `Started with ${SECRET}.`,
    parameters: { type: 'object', properties: { key: { type: 'string', default: SECRET } } },
    returns: { type: 'object', description: SECRET },
    consent: 'free',
    ...(call === undefined ? {} : { call }),
  })
  const entries = [entry('env'), entry(`of-${DIGITS}`)]
  return {
    category: 'srv',
    description: 'A server.',
    tools: async () => entries,
    problem: `it ended: ${SECRET}`,
    close: async () => {},
  }
}

describe('a source with the secrets masked', () => {
  it('gives code no secret in answers, however deep, nor as a name or a number', async () => {
    const value = {
      text: `a ${SECRET} b`,
      [SECRET]: [[JSON.stringify({ SECRET })]],
      n: Number(DIGITS),
      ok: [true, null, 1.5],
    }
    const [env] = await maskedSource(
      sourceOf(async () => ({ value, dollars: 2 })),
      mask,
    ).tools(signal)
    expect(await env?.call?.({}, { signal })).toEqual({
      dollars: 2,
      value: {
        text: 'a [redacted] b',
        '[redacted]': [['{"SECRET":"[redacted]"}']],
        n: '[redacted]',
        ok: [true, null, 1.5],
      },
    })
  })

  it('gives none in failures, descriptions, schemas and problems, and no tool that is named by one', async () => {
    const failing = async () => {
      throw new ToolFailure(`refused for ${SECRET}`)
    }
    const source = maskedSource(sourceOf(failing), mask)
    const tools = await source.tools(signal)
    expect(tools.map(({ name }) => name)).toEqual(['env'])
    expect(JSON.stringify([tools, source.problem])).not.toContain('horse')
    await expect(tools[0]?.call?.({}, { signal })).rejects.toThrow(new ToolFailure('refused for [redacted]'))
  })

  it('has the same tools as long as the source has', async () => {
    const source = maskedSource(sourceOf(undefined), mask)
    expect(await source.tools(signal)).toBe(await source.tools(signal))
  })

  it('hands on what holds none as it is, with a name such as __proto__ too', () => {
    const clean = JSON.parse('{"__proto__":{"a":1}}')
    expect(masked(clean, mask)).toBe(clean)
    const mixed = JSON.parse(`{"__proto__":{"a":1},"b":${JSON.stringify(SECRET)}}`)
    expect(JSON.stringify(masked(mixed, mask))).toBe('{"__proto__":{"a":1},"b":"[redacted]"}')
  })
})
