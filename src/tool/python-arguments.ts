import type { SandboxConfig } from '../config.js'
import { argumentParser, type Parsed, refusal } from './arguments.js'
import { stripCodeFences } from './code-fences.js'
import type { JsonSchema } from './tool.js'

export interface PythonArgs {
  /** Exactly what will run: well-formed, without NUL, not blank, fences and byte order mark taken away. */
  readonly code: string
  /** Whole seconds of wall time above 0, as the model asks for it; null: the default. */
  readonly timeout_seconds: number | null
}

export const PYTHON_TOOL_NAME = 'python_execute'

const EXAMPLE = '{"code": "print(1)", "timeout_seconds": null}'

/** The strict schema of python_execute, with the real limits in its words. */
export function pythonParameters(limits: Pick<SandboxConfig, 'wallMs' | 'wallMaxMs'>): JsonSchema {
  const usual = limits.wallMs / 1000
  const most = Math.max(1, Math.floor(limits.wallMaxMs / 1000))
  return {
    type: 'object',
    properties: {
      code: { type: 'string', description: 'Python source code: one complete script, without Markdown.' },
      timeout_seconds: {
        type: ['integer', 'null'],
        description: `Wall time limit in seconds, 1 to ${most}; null means ${usual}.`,
      },
    },
    required: ['code', 'timeout_seconds'],
    additionalProperties: false,
  }
}

/** Makes the parser of the tool's arguments. Never throws; messages are written for the model. */
export function pythonArgumentParser(parameters: JsonSchema, maxBytes: number): (text: string) => Parsed<PythonArgs> {
  const rules = { toolName: PYTHON_TOOL_NAME, parameters, example: EXAMPLE, maxBytes }
  const parse = argumentParser<PythonArgs>(rules)
  return text => {
    const parsed = parse(text)
    if (!parsed.ok) return parsed
    const code = stripCodeFences(parsed.args.code).replace(/^\ufeff/, '')
    const problem = problemWithCode(code) ?? problemWithTimeout(parsed.args.timeout_seconds)
    if (problem !== null) return { ok: false, message: refusal(rules, problem) }
    return { ok: true, args: { ...parsed.args, code } }
  }
}

function problemWithCode(code: string): string | null {
  if (code.trim() === '') return `"code" is empty${code === '' ? '' : ': it holds nothing but blanks'}`
  const nul = code.indexOf('\0')
  if (nul !== -1) {
    return `"code" contains a NUL character (U+0000) at ${placeOf(code, nul)}, which Python source can't hold: write \\x00 in the Python string, so \\\\x00 in the JSON`
  }
  if (code.isWellFormed()) return null
  const half = code.search(/\p{Surrogate}/u)
  const unit = code.charCodeAt(half).toString(16).toUpperCase()
  return `"code" contains half a surrogate pair (U+${unit}) at ${placeOf(code, half)}, which Python source can't hold: write the whole character, or \\u${unit.toLowerCase()} in the Python string, so \\\\u${unit.toLowerCase()} in the JSON`
}

function problemWithTimeout(timeoutSeconds: number | null): string | null {
  if (timeoutSeconds === null || timeoutSeconds > 0) return null
  return `"timeout_seconds" must be above 0, or null for the default, not ${timeoutSeconds}`
}

function placeOf(code: string, index: number): string {
  const before = code.slice(0, index)
  const lineStart = before.lastIndexOf('\n') + 1
  let lines = 1
  for (let at = before.indexOf('\n'); at !== -1; at = before.indexOf('\n', at + 1)) lines += 1
  return `line ${lines}, column ${index - lineStart + 1}`
}
