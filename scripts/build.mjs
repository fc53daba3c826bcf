// Compiles src/ to dist/, bundles the page of `dev`, and copies what is used as it is: the Python side, and the catalog of its built-in tools.
import { spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, rmSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const root = fileURLToPath(new URL('..', import.meta.url))
rmSync(`${root}dist`, { recursive: true, force: true })
run('typescript/bin/tsc', '-p', `${root}tsconfig.build.json`)
run(
  'vite/bin/vite.js',
  'build',
  `${root}src/dev/page`,
  '--config',
  `${root}scripts/page.vite.mjs`,
  '--logLevel',
  'warn',
)
cpSync(`${root}src/sandbox/python`, `${root}dist/sandbox/python`, {
  recursive: true,
  filter: path => !/__pycache__|\.orig$/.test(path),
})
mkdirSync(`${root}dist/toolbox`, { recursive: true })
cpSync(`${root}src/toolbox/built-in.json`, `${root}dist/toolbox/built-in.json`)

/** A program of node_modules; ends this one where it fails. */
function run(program, ...args) {
  const { status } = spawnSync(process.execPath, [`${root}node_modules/${program}`, ...args], { stdio: 'inherit' })
  if (status !== 0) process.exit(status ?? 1)
}
