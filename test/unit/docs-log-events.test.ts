import { readdirSync, readFileSync } from 'node:fs'
import ts from 'typescript'
import { describe, expect, test } from 'vitest'

const root = new URL('../../', import.meta.url)
const LEVELS = ['trace', 'debug', 'info', 'warn', 'error', 'fatal']

interface LogCall {
  readonly where: string
  /** null: not a string literal. */
  readonly message: string | null
  /** "varies" where it is chosen at run time. */
  readonly level: string
  readonly fields: readonly string[]
}

/** Every call of a logger in src/: a method named as a level, of something that is called log, or log[level](…). */
function logCalls(): LogCall[] {
  const found: LogCall[] = []
  for (const name of readdirSync(new URL('src/', root), { recursive: true, encoding: 'utf8' })) {
    if (!name.endsWith('.ts')) continue
    const text = readFileSync(new URL(`src/${name}`, root), 'utf8')
    const file = ts.createSourceFile(name, text, ts.ScriptTarget.ES2023, true)
    const visit = (node: ts.Node): void => {
      if (ts.isCallExpression(node)) {
        const level = levelOf(node.expression)
        if (level !== null) found.push(described(node, level, name, file))
      }
      ts.forEachChild(node, visit)
    }
    visit(file)
  }
  return found
}

function levelOf(callee: ts.Expression): string | null {
  const isLog = (of: ts.Expression) => /(^|[.#])log$/i.test(of.getText())
  if (ts.isPropertyAccessExpression(callee) && isLog(callee.expression)) {
    return LEVELS.includes(callee.name.text) ? callee.name.text : null
  }
  return ts.isElementAccessExpression(callee) && isLog(callee.expression) ? 'varies' : null
}

function described(node: ts.CallExpression, level: string, name: string, file: ts.SourceFile): LogCall {
  const last = node.arguments.at(-1)
  const object = node.arguments.find(ts.isObjectLiteralExpression)
  return {
    where: `src/${name}:${file.getLineAndCharacterOfPosition(node.getStart()).line + 1}`,
    message: last !== undefined && ts.isStringLiteral(last) ? last.text : null,
    level,
    fields: (object?.properties ?? []).flatMap(property =>
      property.name === undefined ? [] : [property.name.getText()],
    ),
  }
}

interface Row {
  readonly message: string
  readonly level: string
  readonly fields: readonly string[]
}

function documented(): Row[] {
  const text = readFileSync(new URL('docs/operations.md', root), 'utf8')
  const section = text.split('\n## ').find(part => part.startsWith('Log events')) ?? ''
  return section.split('\n').flatMap(line => {
    const [, message, level, fields] = line.split('|').map(cell => cell.trim())
    if (message === undefined || level === undefined || !LEVELS.concat('varies').includes(level)) return []
    return [{ message, level, fields: [...(fields ?? '').matchAll(/`([^`]+)`/g)].map(match => match[1] ?? '') }]
  })
}

const calls = logCalls()
const rows = documented()

describe('log events', () => {
  test('the search finds the events of the code', () => {
    expect(calls.length).toBeGreaterThan(25)
  })

  test('have static messages: data is in fields', () => {
    expect(calls.filter(call => call.message === null).map(call => call.where)).toEqual([])
  })

  test('are all listed in docs/operations.md with their level, and nothing else is', () => {
    const inCode = new Set(calls.map(call => `${call.level}: ${call.message}`))
    expect(rows.map(row => `${row.level}: ${row.message}`).sort()).toEqual([...inCode].sort())
  })

  test.each(rows.map(row => [row.message, row] as const))('%s: its fields are listed', (message, row) => {
    const inCode = calls.filter(call => call.message === message).flatMap(call => call.fields)
    expect(inCode.filter(field => !row.fields.includes(field))).toEqual([])
  })
})
