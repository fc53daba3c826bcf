import { readFileSync } from 'node:fs'
import { describe, expect, test } from 'vitest'
import { loadConfig, VARIABLES } from '../../src/config.js'

const text = readFileSync(new URL('../../.env.example', import.meta.url), 'utf8')
const lines = text.split('\n')
const assignments = lines.flatMap((line, index) => {
  const match = /^(#?)([A-Z][A-Z0-9_]*)=(.*)$/.exec(line)
  return match
    ? [{ commented: match[1] === '#', name: match[2] ?? '', value: match[3] ?? '', above: lines[index - 1] ?? '' }]
    : []
})
const host = { cpus: 2, memoryBytes: 4 * 1024 ** 3 }

describe('.env.example', () => {
  test('lists exactly the variables of the schema, each once', () => {
    expect(assignments.map(({ name }) => name).sort()).toEqual([...VARIABLES].sort())
  })

  test('explains each variable in the line above it', () => {
    expect(assignments.filter(({ above }) => !/^# \S/.test(above)).map(({ name }) => name)).toEqual([])
  })

  test('leaves only the required variables uncommented, and without a value', () => {
    expect(assignments.filter(({ commented }) => !commented)).toMatchObject([
      { name: 'FLEXUS_API_BASEURL', value: '' },
      { name: 'FLEXUS_API_KEY', value: '' },
    ])
  })

  test('shows the defaults: setting them all changes nothing', () => {
    const env = Object.fromEntries(assignments.map(({ name, value }) => [name, value]))
    expect(loadConfig({ ...env, HOME: '/home/u' }, host, { backend: false })).toEqual(
      loadConfig({ HOME: '/home/u' }, host, { backend: false }),
    )
  })

  test('leaves without a value only what has no default of its own', () => {
    expect(assignments.filter(({ commented, value }) => commented && value === '').map(({ name }) => name)).toEqual([
      'FLEXUS_WS_TICKET',
      'VAULT_ENDPOINT',
      'FLEXUS_ENDPOINT',
      'FGROUP_ID',
      'FUSER_ID',
      'STATE_DIR',
      'MAX_CONCURRENT_CALLS',
      'FILES_DIR',
      'FILES_S3_BUCKET',
      'FILES_S3_ENDPOINT',
      'FILES_S3_PREFIX',
      'TOOLS_WEB_SEARCH_URL',
      'TOOLS_WEB_SEARCH_KEY',
      'TOOLS_WEB_DENY_NETWORKS',
      'TOOLS_CONFIG',
      'SANDBOX_CPU_MS',
    ])
  })
})
