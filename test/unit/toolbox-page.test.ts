import { existsSync, readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'

const root = new URL('../../', import.meta.url)
const page = readFileSync(new URL('docs/toolbox.md', root), 'utf8')
const named = [...page.matchAll(/(test\/[\w/.-]+\.test\.ts)(?:, "([^"]+)")?/g)].map(([, file = '', name]) => ({
  file,
  name,
}))

describe('docs/toolbox.md names tests that there are', () => {
  it.each(named)('$file: $name', ({ file, name }) => {
    const url = new URL(file, root)
    expect(existsSync(url)).toBe(true)
    if (name !== undefined) expect(readFileSync(url, 'utf8')).toContain(name)
  })

  it('and a good number of them', () => expect(named.length).toBeGreaterThan(12))
})
