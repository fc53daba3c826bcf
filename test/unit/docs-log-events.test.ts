import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
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
  const folder = fileURLToPath(root)
  const { config } = ts.readConfigFile(`${folder}tsconfig.build.json`, ts.sys.readFile)
  const { fileNames, options } = ts.parseJsonConfigFileContent(config, ts.sys, folder)
  const program = ts.createProgram(fileNames, options)
  const checker = program.getTypeChecker()
  const found: LogCall[] = []
  for (const file of program.getSourceFiles()) {
    if (!file.fileName.startsWith(`${folder}src/`)) continue
    const visit = (node: ts.Node): void => {
      if (ts.isCallExpression(node)) {
        const level = levelOf(node.expression)
        if (level !== null) found.push(described(node, level, file, checker))
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

function described(node: ts.CallExpression, level: string, file: ts.SourceFile, checker: ts.TypeChecker): LogCall {
  const last = node.arguments.at(-1)
  const object = node.arguments.length > 1 ? node.arguments[0] : undefined
  return {
    where: `${file.fileName}:${file.getLineAndCharacterOfPosition(node.getStart()).line + 1}`,
    message: last !== undefined && ts.isStringLiteral(last) ? last.text : null,
    level,
    // Of its type: what is spread into it, or was made elsewhere, has its fields too.
    fields:
      object === undefined
        ? []
        : checker
            .getTypeAtLocation(object)
            .getProperties()
            .map(({ name }) => name),
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

  test.each(rows.map(row => [row.message, row] as const))('%s: its fields are listed, and no other', (message, row) => {
    const inCode = calls.filter(call => call.message === message).flatMap(call => call.fields)
    expect([...row.fields].sort()).toEqual([...new Set(inCode)].sort())
  })

  test('fields that are spread into an event are found', () => {
    const fields = calls.find(call => call.message === 'call handled')?.fields ?? []
    expect(fields).toEqual(expect.arrayContaining(['status', 'cpu_ms', 'delta_bytes_dropped']))
  })

  test('say of a worker that can not start every code that it ends with, and each has a line in the runbook', () => {
    const text = readFileSync(new URL('docs/operations.md', root), 'utf8')
    const row = text.split('\n').find(line => line.startsWith('| worker can not start')) ?? ''
    expect(row.match(/\b\d\d\b/g)).toEqual(['69', '70', '71', '78'])
    expect(text.split('**78.**')[1]?.split('\n\n')[0]).toContain('in use by another worker')
  })
})
