import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { beforeAll, describe, expect, test } from 'vitest'
import { z } from 'zod'

const root = new URL('../../', import.meta.url)
const readme = readFileSync(new URL('README.md', root), 'utf8')
const { scripts } = z
  .object({ scripts: z.record(z.string(), z.string()) })
  .parse(JSON.parse(readFileSync(new URL('package.json', root), 'utf8')))

const npmLines = readme.split('\n').filter(line => /^npm /.test(line))
const section = (title: string) => readme.split('\n## ').find(part => part.startsWith(title)) ?? ''

describe('the README', () => {
  test('names exactly the three commands of a first use', () => {
    expect(npmLines).toEqual(['npm ci && npm run dev', 'npm ci && npm run demo', 'npm ci && npm test'])
  })

  test('names no script that package.json does not have', () => {
    const named = [...readme.matchAll(/npm (?:run ([a-z]+)|(test|start)\b)/g)].map(match => match[1] ?? match[2] ?? '')
    expect(named.filter(name => !(name in scripts))).toEqual([])
  })

  test('says the Node version that package.json asks for', () => {
    expect(readFileSync(new URL('package.json', root), 'utf8')).toContain('"node": ">=20.19"')
    expect(readme).toContain('Node 20.19 or later')
  })
})

describe('the command line in the README', () => {
  let help = ''

  beforeAll(() => {
    const main = fileURLToPath(new URL('dist/main.js', root))
    const run = spawnSync(process.execPath, [main, '--help'], { encoding: 'utf8' })
    expect(run.stderr).toBe('')
    help = run.stdout
  })

  const text = section('Command line')

  test('has each of its options in --help', () => {
    const options = new Set([...text.matchAll(/--[a-z]+/g)].map(match => match[0]))
    expect(options.size).toBeGreaterThan(4)
    expect([...options].filter(option => !help.includes(option))).toEqual([])
  })

  test('lacks none of the options of --help', () => {
    const options = new Set([...help.matchAll(/--[a-z]+/g)].map(match => match[0]))
    expect([...options].filter(option => !text.includes(option))).toEqual([])
  })

  test('has each command as --help shows it', () => {
    const commands = [...text.matchAll(/^\| `([a-z][^`]*)` +\|/gm)].map(match => match[1] ?? '')
    expect(commands.length).toBeGreaterThan(4)
    const spaced = help.replaceAll(/ +/g, ' ')
    expect(commands.filter(command => !spaced.includes(`\n ${command} `))).toEqual([])
  })

  test('names the exit codes that --help names', () => {
    const codes = (from: string) => [...new Set(from.match(/\b\d{2,3}\b/g) ?? [])].sort()
    const exits = (from: string) => from.slice(from.indexOf('Exit codes of'))
    expect(codes(exits(text))).toEqual(codes(exits(help)))
  })
})
