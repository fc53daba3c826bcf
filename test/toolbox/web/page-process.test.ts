import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { afterAll, describe, expect, test } from 'vitest'
import { PAGE_LIMITS, type PageJob, type PageLimits } from '../../../src/toolbox/web/page-messages.js'
import { runPageJob, startPageProcess } from '../../../src/toolbox/web/page-process.js'
import { createSpareProcess } from '../../../src/toolbox/web/spare-process.js'
import { buildReader } from './support/page-reader.js'

const reader = buildReader()
afterAll(() => reader.remove())

const POLICY = { ports: [80], deniedNetworks: [], exempt: [] }
/** Ends when its test lets it, or with its stdin. */
const HANGS = 'process.stdin.resume(); process.stdin.on("end", () => process.exit())'
const ANSWER = (answer: string) => `process.stdin.once('data', () => { process.stdout.write(${answer}) })`

let count = 0

async function run(code: string, limits: Partial<PageLimits> = {}, signal = new AbortController().signal) {
  const job: PageJob = { urls: ['a', 'b'], charLimit: 200, policy: POLICY, limits: { ...PAGE_LIMITS, ...limits } }
  const child = startPageProcess(reader.write(`attack-${count++}.js`, code), job.limits)
  const result = await runPageJob(child, job, signal)
  expect(() => process.kill(child.pid ?? 0, 0)).toThrow('ESRCH')
  return result
}

const good = (index: number, content = 'x') => JSON.stringify({ index, title: '', content, error: null })

describe('nothing that the process answers is trusted', () => {
  test.each([
    ['no JSON', `'hello\\n'`],
    ['another shape', `'{"index":0}\\n'`],
    ['more fields', `'{"index":0,"title":"","content":"","error":null,"x":1}\\n'`],
    ['a page that was not asked for', `${JSON.stringify(good(2))} + '\\n'`],
    ['a page twice', `(${JSON.stringify(good(0))} + '\\n').repeat(2)`],
    ['more text than was asked for', `${JSON.stringify(good(0, 'y'.repeat(201)))} + '\\n'`],
    ['100 MB without a line', `'x'.repeat(1e8)`],
    ['bytes that are no text', `Buffer.from([0xff, 10])`],
    ['empty lines', `'\\n'.repeat(1000)`],
  ])('%s', async (_, answer) => {
    const { end, answers } = await run(`${ANSWER(answer)}\n${HANGS}`)
    expect(end).toBe('garbage')
    expect(answers.size).toBeLessThanOrEqual(1)
  })

  test('what came before the process died is kept', async () => {
    const code = ANSWER(`${JSON.stringify(good(1, 'kept'))} + '\\n', () => process.exit(3)`)
    const { end, answers } = await run(code)
    expect(end).toBe('died')
    expect([...answers.values()]).toEqual([{ index: 1, title: '', content: 'kept', error: null }])
  })

  test('an end without all answers is no good end', async () => {
    expect((await run('')).end).toBe('died')
  })
})

describe('the process is ended', () => {
  test('when its time is over, also in a loop', async () => {
    expect((await run('for (;;);', { wallMs: 700 })).end).toBe('time')
  })

  test('when it takes too much memory outside of the heap', async () => {
    const code = `const all = []; setInterval(() => all.push(Buffer.alloc(8e6, 1)), 10); ${HANGS}`
    expect((await run(code, { rssBytesMax: 150e6 })).end).toBe('memory')
  })

  test('when it takes all memory at once: the kernel says no', async () => {
    const code = 'const all = []; for (;;) all.push(Buffer.alloc(64e6, 1))'
    const { end } = await run(code, { rssBytesMax: 150e6 })
    expect(['memory', 'died']).toContain(end)
  })

  test('when its heap is full', async () => {
    const code = 'let all = []; for (;;) all = [all, new Array(100).fill({})]'
    expect((await run(code, { heapMib: 32, rssBytesMax: 900e6 })).end).toBe('memory')
  })

  test('when nobody waits any more', async () => {
    const controller = new AbortController()
    setTimeout(() => controller.abort(), 300)
    expect((await run(HANGS, {}, controller.signal)).end).toBe('aborted')
    expect((await run(HANGS, {}, AbortSignal.abort())).end).toBe('aborted')
  })

  test('when it can not be started', async () => {
    expect((await run('import "./missing.js"')).end).toBe('died')
  })

  test('when its worker is killed', async () => {
    const holder = spawn(
      process.execPath,
      [
        '--input-type=module',
        '-e',
        `const { startPageProcess } = await import(${JSON.stringify(reader.entry.replace('page-child', 'page-process'))})
         console.log(startPageProcess(${JSON.stringify(reader.entry)}, ${JSON.stringify(PAGE_LIMITS)}).pid)
         setInterval(() => {}, 1000)`,
      ],
      { stdio: ['ignore', 'pipe', 'inherit'], cwd: fileURLToPath(new URL('../../../', import.meta.url)) },
    )
    const [line] = await once(holder.stdout, 'data')
    const pid = Number(String(line))
    expect(process.kill(pid, 0)).toBe(true)
    holder.kill('SIGKILL')
    await expect.poll(() => isAlive(pid), { timeout: 15_000 }).toBe(false)
  })
})

describe('the process has no rights', () => {
  const tell = (expression: string) =>
    `import * as all from 'node:module'
     const require = all.createRequire(import.meta.url)
     const told = async () => ${expression}
     process.stdin.once('data', async () => {
       const content = await told().then(v => 'did: ' + JSON.stringify(v), e => 'refused: ' + (e.code ?? e.name))
       process.stdout.write(JSON.stringify({ index: 0, title: '', content: content.slice(0, 200), error: null }) + '\\n')
       process.exit()
     })`

  test.each([
    ['read the host', `require('node:fs').readFileSync('/etc/passwd', 'utf8')`],
    ["read the worker's environment", `require('node:fs').readFileSync('/proc/' + process.ppid + '/environ')`],
    ['list the root', `require('node:fs').readdirSync('/')`],
    ['list a folder', `require('node:fs').readdirSync('/etc')`],
    ['look for a file', `require('node:fs').statSync('/etc/passwd')`],
    ['write a file', `require('node:fs').writeFileSync('/tmp/page-child-wrote', 'x')`],
    ['write beside its code', `require('node:fs').writeFileSync(new URL('x.js', import.meta.url), 'x')`],
    ['start a process', `require('node:child_process').execFileSync('/bin/true')`],
    ['start a thread', `new (require('node:worker_threads').Worker)('1', { eval: true })`],
  ])('to %s', async (_, attack) => {
    const { answers } = await run(tell(attack))
    expect(answers.get(0)?.content).toBe('refused: ERR_ACCESS_DENIED')
  })

  test('to make code out of strings', async () => {
    const { answers } = await run(tell(`new Function('return 1')()`))
    expect(answers.get(0)?.content).toBe('refused: EvalError')
  })

  test('and is the first to go where memory is short', async () => {
    const child = startPageProcess(reader.write('idle.js', HANGS), PAGE_LIMITS)
    const score = () => readFileSync(`/proc/${child.pid}/oom_score_adj`, 'utf8').trim()
    await expect.poll(score, { timeout: 10_000 }).toBe('1000')
    expect(readFileSync(`/proc/${child.pid}/limits`, 'utf8')).toMatch(/Max core file size +0 +0/)
    child.kill('SIGKILL')
    await once(child, 'close')
  })

  test('and knows nothing of the environment', async () => {
    const { answers } = await run(tell('Object.keys(process.env).filter(name => !/^(PWD|OLDPWD|SHLVL|_)$/.test(name))'))
    expect(answers.get(0)?.content).toBe('did: []')
  })
})

describe('a spare process', () => {
  const start = () => startPageProcess(reader.entry, PAGE_LIMITS)

  test('is taken by one call only, is ended when nobody takes it, and when it is closed', async () => {
    const spare = createSpareProcess(start, 1_000)
    spare.prepare()
    spare.prepare()
    const first = spare.take()
    const second = spare.take()
    expect(second.pid).not.toBe(first.pid)
    first.kill('SIGKILL')
    second.kill('SIGKILL')
    spare.prepare()
    spare.close()
    spare.prepare()
    const idle = createSpareProcess(() => third, 300)
    const third = start()
    idle.prepare()
    await expect.poll(() => third.signalCode, { timeout: 10_000 }).toBe('SIGKILL')
    idle.close()
  })

  test('that has died is not given to a call', async () => {
    const started: ReturnType<typeof start>[] = []
    const spare = createSpareProcess(() => {
      const child = start()
      started.push(child)
      return child
    })
    spare.prepare()
    started[0]?.kill('SIGKILL')
    if (started[0] !== undefined) await once(started[0], 'exit')
    const taken = spare.take()
    expect(taken).toBe(started[1])
    taken.kill('SIGKILL')
    spare.close()
  })
})

function isAlive(pid: number): boolean {
  try {
    return process.kill(pid, 0)
  } catch {
    return false
  }
}
