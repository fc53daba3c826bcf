// Compiles src/ to dist/ and copies what is used as it is: the Python side, and the catalog of its built-in tools.
import { spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, rmSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
rmSync(`${root}dist`, { recursive: true, force: true })
const tsc = spawnSync(
  process.execPath,
  [`${root}node_modules/typescript/bin/tsc`, '-p', `${root}tsconfig.build.json`],
  { stdio: 'inherit' },
)
if (tsc.status !== 0) process.exit(tsc.status ?? 1)
cpSync(`${root}src/sandbox/python`, `${root}dist/sandbox/python`, {
  recursive: true,
  filter: path => !/__pycache__|\.orig$/.test(path),
})
mkdirSync(`${root}dist/toolbox`, { recursive: true })
cpSync(`${root}src/toolbox/built-in.json`, `${root}dist/toolbox/built-in.json`)
