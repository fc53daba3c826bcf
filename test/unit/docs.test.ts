import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { VARIABLES } from '../../src/config.js'

const root = new URL('../../', import.meta.url)
const read = (path: string) => readFileSync(new URL(path, root), 'utf8')
const pages = [
  'README.md',
  ...readdirSync(new URL('docs/', root)).flatMap(name => (name.endsWith('.md') ? [`docs/${name}`] : [])),
]

/** Of files, of messages, and of things that are no setting of ours. */
const OTHER_CAPITALS = /^(SIG|CAP_|CLONE_|MADV_|RLIMIT_|ENOSYS|EPERM|SYS_ADMIN|WAIT_SUBCHATS|CALL_)/

describe.each(pages)('%s', page => {
  const text = read(page)

  test('names only variables that .env.example lists', () => {
    const listed = new Set([...read('.env.example').matchAll(/^#?([A-Z][A-Z0-9_]*)=/gm)].map(match => match[1] ?? ''))
    const named = [...text.matchAll(/`\$?([A-Z][A-Z0-9]*_[A-Z0-9_]+)(?:=[^`]*)?`/g)].map(match => match[1] ?? '')
    expect(named.filter(name => !listed.has(name) && (VARIABLES.includes(name) || !OTHER_CAPITALS.test(name)))).toEqual(
      [],
    )
  })

  test('names only files that are there', () => {
    const named = [...text.matchAll(/`((?:src|test|docker|docs|scripts)\/[\w./-]*)`/g)].map(match => match[1] ?? '')
    expect(named.filter(path => !existsSync(new URL(path, root)))).toEqual([])
  })

  test('links only to files that are there', () => {
    const links = [...text.matchAll(/\]\(([^)#]+)\)/g)].map(match => match[1] ?? '')
    expect(links.filter(link => !existsSync(new URL(link, new URL(page, root))))).toEqual([])
  })

  test('holds no line that is wider than 140 columns, tables aside', () => {
    const wide = text.split('\n').filter(line => line.length > 140 && !line.startsWith('|'))
    expect(wide).toEqual([])
  })
})
