import { spawn } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { catches, descendants, processWith, survivors } from '../../e2e/support/processes.js'
import { misbehaving } from './support/sources.js'

const BUILT = new URL('../../../dist/toolbox/mcp/server-process.js', import.meta.url).href

test('no server outlives a worker that is killed, not even one that ignores SIGTERM and the end of its stdin', async () => {
  const folder = mkdtempSync(path.join(tmpdir(), 'mcp-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  const config = { kind: 'stdio', ...misbehaving('stubborn', folder), env: {}, cwd: null }
  const program = path.join(folder, 'worker.mjs')
  writeFileSync(
    program,
    `import { startServerProcess } from ${JSON.stringify(BUILT)}
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
