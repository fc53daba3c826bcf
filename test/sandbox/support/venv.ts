import { execFileSync } from 'node:child_process'
import { chmodSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { readablePython } from './pythons.js'

export interface Venv {
  /** Its interpreter. */
  readonly python: string
  remove(): void
}

/** A venv that every user can read, with modules of one file each: name to source. */
export function makeVenv(modules: Readonly<Record<string, string>>): Venv {
  const folder = mkdtempSync('/tmp/venv-')
  chmodSync(folder, 0o755)
  execFileSync(readablePython(), ['-m', 'venv', '--without-pip', folder])
  const lib = join(folder, 'lib')
  const packages = join(lib, readdirSync(lib)[0] ?? '', 'site-packages')
  for (const [name, source] of Object.entries(modules)) writeFileSync(join(packages, `${name}.py`), source)
  return { python: join(folder, 'bin', 'python'), remove: () => rmSync(folder, { recursive: true, force: true }) }
}
