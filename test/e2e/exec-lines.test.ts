import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, describe, expect, it } from 'vitest'
import { endPrograms, leftFolders, type Program, startProgram } from './support/worker-process.js'

afterEach(endPrograms)

interface Line {
  readonly id: unknown
  readonly line?: number
  readonly status: string
  readonly content: string
}

function answers(program: Program): Line[] {
  return program
    .stdout()
    .split('\n')
    .filter(line => line !== '')
    .map(line => JSON.parse(line) as Line)
}

function start(env: Record<string, string> = {}): Promise<Program> {
  return startProgram(['exec', '--jsonl'], env, 'pipe')
}

describe('exec --jsonl', () => {
  it('answers each line with its id, bad ones with "rejected", and goes on', async () => {
    const program = await start()
    const lines = [
      '{"id": "good", "code": "print(1)", "timeout_seconds": 5}',
      'this is not JSON',
      '[1, 2]',
      '{"id": {"any": "value"}, "code": 42}',
      '',
      '{"id": "no code"}',
      '{"code": "print(\\"without an id\\")"}',
      '{"id": "dies", "code": "import os; os._exit(7)"}',
      `{"id": "large", "code": "${'#'.repeat(2_000_000)}"}`,
      '{"id": "last", "code": "print(2)"}',
    ]
    program.child.stdin?.end(`${lines.join('\n')}\n`)
    expect(await program.exited).toEqual({ code: 0, signal: null })
    const byId = new Map(answers(program).map(line => [JSON.stringify(line.id), line]))
    expect(answers(program)).toHaveLength(9)
    expect(byId.get('"good"')).toMatchObject({ status: 'completed', content: '1\n' })
    expect(byId.get('{"any":"value"}')).toMatchObject({ status: 'rejected' })
    expect(byId.get('"no code"')).toMatchObject({ status: 'rejected' })
    expect(byId.get('"dies"')).toMatchObject({ status: 'failed', exit_code: 7 })
    expect(byId.get('"large"')).toMatchObject({ status: 'rejected' })
    expect(byId.get('"last"')).toMatchObject({ status: 'completed', content: '2\n' })
    const withoutId = answers(program).filter(line => line.id === null)
    expect(withoutId.map(({ line, status }) => `${line}: ${status}`).sort()).toEqual([
      '2: rejected',
      '3: rejected',
      '7: completed',
    ])
    expect(answers(program).filter(line => line.id !== null && line.line !== undefined)).toEqual([])
    expect(await leftFolders(program)).toEqual([])
  })

  it('runs several at once, as many as there are slots', async () => {
    const program = await start({ MAX_CONCURRENT_CALLS: '4' })
    const code = 'import time; begun = time.monotonic(); time.sleep(1); print(begun, time.monotonic())'
    const lines = Array.from({ length: 4 }, (_, id) => JSON.stringify({ id, code }))
    program.child.stdin?.end(lines.join('\n')) // without a line break at its end
    await program.exited
    const spans = answers(program).map(line => line.content.trim().split(' ').map(Number))
    expect(spans).toHaveLength(4)
    const lastBegin = Math.max(...spans.map(([begun]) => begun ?? 0))
    const firstEnd = Math.min(...spans.map(([, ended]) => ended ?? 0))
    expect(lastBegin).toBeLessThan(firstEnd)
  })

  it('answers one request before the next is sent, so that a driver can wait for it', async () => {
    const program = await start()
    for (const n of [1, 2]) {
      program.child.stdin?.write(`{"id": ${n}, "code": "print(${n})"}\n`)
      for (let waitedMs = 0; answers(program).length < n && waitedMs < 10_000; waitedMs += 20) await sleep(20)
      expect(answers(program)).toHaveLength(n)
    }
    program.child.stdin?.end()
    expect(await program.exited).toEqual({ code: 0, signal: null })
  })

  it('SIGINT with its input still open ends what runs, answers it, and exits 130', async () => {
    const program = await start()
    program.child.stdin?.write(
      '{"id": "first", "code": "print(1)"}\n{"id": "long", "code": "import time; time.sleep(60)"}\n',
    )
    for (let waitedMs = 0; answers(program).length < 1 && waitedMs < 10_000; waitedMs += 20) await sleep(20)
    await sleep(200)
    program.child.kill('SIGINT')
    expect(await program.exited).toEqual({ code: 130, signal: null })
    expect(answers(program).find(line => line.id === 'long')).toMatchObject({ status: 'cancelled' })
    expect(await leftFolders(program)).toEqual([])
  })

  it('without any input it ends at once with 0 and prints nothing', async () => {
    const program = await start()
    program.child.stdin?.end()
    expect(await program.exited).toEqual({ code: 0, signal: null })
    expect(program.stdout()).toBe('')
    expect(program.stderr()).toBe('')
  })
})
