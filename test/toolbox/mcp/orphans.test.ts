import { spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import ts from 'typescript'
import { expect, onTestFinished, test } from 'vitest'
import { catches, descendants, processWith, survivors } from '../../e2e/support/processes.js'
import { misbehaving } from './support/sources.js'

test('no server outlives a worker that is killed, not even one that ignores SIGTERM and the end of its stdin', async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'mcp-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const source = readFileSync(new URL('../../../src/toolbox/mcp/server-process.ts', import.meta.url), 'utf8')
  const { outputText } = ts.transpileModule(source, {
    compilerOptions: { target: ts.ScriptTarget.ES2023, module: ts.ModuleKind.ESNext },
  })
  writeFileSync(path.join(folder, 'server-process.mjs'), outputText)
  const config = { kind: 'stdio', ...misbehaving('stubborn', folder), env: {}, cwd: null }
  const program = path.join(folder, 'worker.mjs')
  writeFileSync(
    program,
    `import { startServerProcess } from './server-process.mjs'
    const started = startServerProcess(${JSON.stringify(config)}, process.env)
    started.stdout.resume()
    started.stderr.resume()`,
  )
  const worker = spawn(process.execPath, [program], { stdio: 'ignore' })
  const pid = worker.pid ?? 0
  try {
    const grandchild = await processWith('stubborn-grandchild', pid, 15_000)
    await expect.poll(() => catches(grandchild.pid, 'SIGTERM'), { timeout: 10_000 }).toBe(true)
    const family = descendants(pid)
    // The server, what waits beside it, and the grandchild.
    expect(family.length).toBeGreaterThanOrEqual(3)
    const exited = new Promise(resolve => worker.once('exit', resolve))
    worker.kill('SIGKILL')
    await exited
    expect(await survivors(family, 10_000)).toEqual([])
  } finally {
    worker.kill('SIGKILL')
  }
})
