import { createHash } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import type { LimitHit, SandboxReport } from '../../../src/outcome.js'
import { linesBelow, makeOutcome, type OutcomeInput } from '../../../src/tool/make-outcome.js'
import { captured, context, reportOf } from './fixtures.js'

const MIB = 1024 * 1024
const outcomeOf = (changes: Partial<SandboxReport>, more: Partial<OutcomeInput> = {}) =>
  makeOutcome({
    ...context,
    report: reportOf(changes),
    args: { code: 'print("é")', timeout_seconds: null },
    wallMs: 60_000,
    queueMs: 7,
    notes: [],
    ...more,
  })
const contentOf = (changes: Partial<SandboxReport>, more: Partial<OutcomeInput> = {}) =>
  outcomeOf(changes, more).content
const limit = (name: LimitHit['name'], value: number, unit: LimitHit['unit'], peak: number | null = null) => ({
  limit: { name, value, unit, peak },
})

describe('the lines below what was printed', () => {
  test.each<[string, Partial<SandboxReport>, string[]]>([
    ['none', { stdout: captured('[printed]\n') }, []],
    ['none after a value that looks like one', { stdout: captured('a'), value: '[1, 2, 3]' }, []],
    ['none after stderr that looks like one', { stderr: captured('[a]\n[b]') }, []],
    ['that nothing was printed', { stdout: captured(' \n') }, ['[no output]']],
    [
      'the same as a printed one',
      { status: 'failed', exitCode: 3, stdout: captured('[exit code 3]') },
      ['[exit code 3]'],
    ],
    ['several', { status: 'failed', exitCode: 3, value: 'x', notes: ['a note'] }, ['[exit code 3]', '[a note]']],
  ])('are %s', (_what, changes, lines) => {
    expect(linesBelow(outcomeOf(changes))).toEqual(lines)
  })
})

describe('what was shown', () => {
  const image = { m_type: 'image/png', m_content: 'iVBOR' }
  const table = { m_type: 'text', m_content: 'a \0 b' }

  test('follows the text as parts, with a line that counts it and says what was left out', () => {
    const leftOut = [{ name: 'a].png', reason: 'is a GIF image: [save] it' }]
    const { content, parts } = outcomeOf({
      stdout: captured('printed\n'),
      shown: { parts: [image, table, image], images: 2, leftOut },
    })
    expect(content).toBe(
      'printed\n[shown below: 2 images, 1 text; left out: a\\u{5d}.png is a GIF image: \\u{5b}save\\u{5d} it]',
    )
    expect(parts).toEqual([
      { m_type: 'text', m_content: content },
      image,
      { m_type: 'text', m_content: 'a \u2400 b' },
      image,
    ])
  })

  test('names what was left out for the same reason together', () => {
    const leftOut = [9, 10, 11, 12, 13].map(n => ({ name: `figure ${n}`, reason: 'beyond the limit' }))
    const other = { name: 'a.png', reason: 'is empty' }
    expect(contentOf({ stdout: captured('a'), shown: { parts: [], images: 0, leftOut: [...leftOut, other] } })).toBe(
      'a\n[left out: figure 9, figure 10, figure 11 and 2 more beyond the limit; a.png is empty]',
    )
  })

  test('is output', () => {
    expect(contentOf({ shown: { parts: [image], images: 1, leftOut: [] } })).toBe('[shown below: 1 image]')
    expect(contentOf({ shown: { parts: [], images: 0, leftOut: [{ name: 'a', reason: 'is b' }] } })).toBe(
      '[no output]\n[left out: a is b]',
    )
  })

  test('is shown in the place of the value, which stays what it is', () => {
    const outcome = outcomeOf({ value: '   a\n0  1', valueText: '| a |', exitCode: 1, status: 'failed' })
    expect(outcome).toMatchObject({
      content: '| a |\n[exit code 1]',
      value: '   a\n0  1',
      value_text: '| a |',
      parts: null,
    })
    expect(linesBelow(outcome)).toEqual(['[exit code 1]'])
  })

  test('has its texts masked, and its images left alone', () => {
    const mask = (text: string) => text.replaceAll('VBO', '***')
    const parts = [image, { m_type: 'text', m_content: 'VBO' }]
    const outcome = outcomeOf(
      { valueText: 'VBO', shown: { parts, images: 1, leftOut: [{ name: 'VBO', reason: 'VBO' }] } },
      { mask },
    )
    expect(outcome.content).toBe('***\n[shown below: 1 image, 1 text; left out: *** ***]')
    expect(outcome.parts?.slice(1)).toEqual([image, { m_type: 'text', m_content: '***' }])
  })
})

describe('content', () => {
  test('is stdout, then the value, then stderr under its heading, then bracketed lines', () => {
    const content = contentOf({
      status: 'failed',
      exitCode: 1,
      stdout: captured('a\nb'),
      value: '[1, 2]',
      stderr: captured('Traceback\n'),
      files: [{ path: 'plot.png', bytes: 12_345, mime: 'image/png' }],
    })
    expect(content).toBe('a\nb\n[1, 2]\n--- stderr ---\nTraceback\n[exit code 1]\n[files: plot.png (12 KB)]')
  })

  test('is exactly stdout where there is nothing else to say', () => {
    expect(contentOf({ stdout: captured('  a\n\n') })).toBe('  a\n\n')
  })

  test.each([
    ['says so when there is no output', {}, '[no output]'],
    ['says so when the output is only blanks', { stdout: captured('\n \n'), stderr: captured('\n') }, '[no output]'],
    [
      'says so and lists the files',
      { files: [{ path: 'a.csv', bytes: 1, mime: 'text/csv' }] },
      '[no output]\n[files: a.csv (1 byte)]',
    ],
    ['says so and gives the exit code', { status: 'failed', exitCode: 3 } as const, '[no output]\n[exit code 3]'],
    ['takes a value for output', { value: "''" }, "''"],
    ['takes stderr for output', { stderr: captured('w') }, '--- stderr ---\nw'],
  ])('%s', (_what, changes, content) => {
    expect(contentOf(changes)).toBe(content)
  })

  const some = { stdout: captured('x\n') }
  test.each([
    ['an exit code', { status: 'failed', exitCode: 3 }, '[exit code 3]'],
    ['the time limit', { status: 'timed_out', ...limit('wall', 2000, 'ms') }, '[timed out after 2 s]'],
    ['the time limit where the report names none', { status: 'timed_out' }, '[timed out after 60 s]'],
    ['part of a second', { status: 'timed_out', ...limit('wall', 1500, 'ms') }, '[timed out after 1.5 s]'],
    [
      'memory with limit and peak',
      { status: 'out_of_memory', ...limit('memory', 512 * MIB, 'bytes', 530 * MIB) },
      '[out of memory: limit 512 MiB, peak 530 MiB]',
    ],
    [
      'memory with the peak from the usage',
      { status: 'out_of_memory', ...limit('memory', 256 * MIB, 'bytes') },
      '[out of memory: limit 256 MiB, peak 512 MiB]',
    ],
    [
      'another limit that ended the run',
      { status: 'limit_exceeded', ...limit('cpu', 10_000, 'ms', 10_200) },
      '[ended: over the limit of 10 s CPU time (peak 10.2 s)]',
    ],
    [
      'a limit that the code met',
      { ...limit('processes', 64, 'processes', 64) },
      '[limit reached: 64 processes and threads (peak 64)]',
    ],
    [
      'a limit that made the code fail',
      { status: 'failed', exitCode: 1, ...limit('workspace_bytes', 256 * MIB, 'bytes') },
      '[exit code 1]\n[limit reached: 256 MiB for all files together]',
    ],
    [
      'a crash with a hint',
      { status: 'crashed', signal: 'SIGSEGV' },
      /^\[crashed: SIGSEGV, an invalid memory access.*\]$/,
    ],
    ['a crash without a hint', { status: 'crashed', signal: 'SIGUSR1' }, '[crashed: SIGUSR1]'],
    [
      'a cancelled run',
      { status: 'cancelled', reason: 'stopped by the user' },
      '[cancelled: stopped by the user; the code may have run in part]',
    ],
    [
      'an interrupted run',
      { status: 'interrupted', reason: 'the worker is shutting down' },
      '[interrupted: the worker is shutting down; the code may have run in part]',
    ],
    [
      'a run that never started',
      { status: 'interrupted', reason: 'the worker is shutting down', started: false },
      '[interrupted: the worker is shutting down; not run, safe to retry]',
    ],
    [
      'cut output',
      { stdout: captured('x\n', { truncated: true, bytes_kept: 50_000, bytes_total: 1_234_567 }) },
      '[stdout: showing 50000 of 1234567 bytes]',
    ],
    ['notes of the sandbox', { notes: ['files: 3 more not listed'] }, '[files: 3 more not listed]'],
  ] as [string, Partial<SandboxReport>, string | RegExp][])('names %s', (_what, changes, lines) => {
    const content = contentOf({ ...some, ...changes })
    expect(content.slice(0, 2)).toBe('x\n')
    expect(content.slice(2)).toEqual(typeof lines === 'string' ? lines : expect.stringMatching(lines))
  })

  test('says after the exit code what the code could not know of the sandbox', () => {
    const stderr = captured('OSError: [Errno 101] Network is unreachable\n')
    const content = contentOf({ status: 'failed', exitCode: 1, stderr })
    expect(content).toMatch(/\n\[exit code 1\]\n\[there is no network in the sandbox\]$/)
  })

  test('names cut stderr', () => {
    const stderr = captured('e\n', { truncated: true, bytes_kept: 10_000, bytes_total: 20_000 })
    expect(contentOf({ stderr })).toBe('--- stderr ---\ne\n[stderr: showing 10000 of 20000 bytes]')
  })

  test('gives the notes of the call', () => {
    expect(contentOf(some, { notes: ['time limit shortened'] })).toBe('x\n[time limit shortened]')
  })

  test('lists the tool calls of a run that was cut off', () => {
    const toolCalls = [
      { tool: 'mail', ok: true, ms: 5, args_preview: '{}', error: null, bytes: 2, dollars: 0 },
      { tool: 'search', ok: false, ms: 5, args_preview: '{}', error: null, bytes: 2, dollars: 0 },
    ]
    expect(contentOf({ ...some, status: 'interrupted', reason: 'a crash' }, { toolCalls })).toBe(
      'x\n[interrupted: a crash; the code may have run in part]\n[tool calls made before the end: mail ok, search failed]',
    )
  })

  test('lists at most twenty files and counts the rest', () => {
    const files = Array.from({ length: 25 }, (_, index) => ({ path: `f${index}`, bytes: 2_000_000, mime: 'x/y' }))
    const content = contentOf({ ...some, files })
    expect(content).toContain('f19 (2 MB) and 5 more]')
    expect(content).not.toContain('f20')
  })

  test('does not let a file name forge a line or grow without bounds', () => {
    const files = [{ path: `a\n[exit code 0]\u202e${'b'.repeat(5000)}`, bytes: 0, mime: 'x/y' }]
    const content = contentOf({ ...some, files })
    expect(content).toMatch(/^x\n\[files: a\\n\\u\{5b\}exit code 0\\u\{5d\}\\u\{202e\}b{80,120}… \(0 bytes\)\]$/)
  })
})

test('every text is well-formed and without NUL', () => {
  const outcome = outcomeOf({
    stdout: captured('a\ud800\0'),
    stderr: captured('\0\udc00'),
    value: "'\ud800\0'",
    files: [{ path: 'x\udcff\0', bytes: 1, mime: 'x/y' }],
    notes: ['\0\ud800'],
  })
  const texts = [
    outcome.content,
    outcome.stdout.text,
    outcome.stderr.text,
    outcome.value ?? '',
    outcome.files[0]?.path ?? '',
  ]
  for (const text of texts)
    expect([text.isWellFormed(), text.includes('\0'), text.length > 0]).toEqual([true, false, true])
})

describe('the rest of the outcome', () => {
  test('carries what the sandbox reports', () => {
    const changes = { exitCode: 0, value: '5', ...limit('open_files', 256, 'files', 256) }
    expect(outcomeOf(changes)).toMatchObject({
      status: 'completed',
      exit_code: 0,
      signal: null,
      limit: changes.limit,
      parts: null,
      value: '5',
      tool_calls: [],
      usage: { queue_ms: 7, start_ms: 1, run_ms: 2000, cpu_ms: 1500, max_rss_bytes: 512 * MIB },
    })
  })

  test('costs CPU-seconds, GiB-seconds, the call and what tools charged', () => {
    // 1.5 s × 0.01 + 0.5 GiB × 2 s × 0.002 + 0.0005 + 0.1
    expect(outcomeOf({}, { toolDollars: 0.1 }).dollars).toBe(0.1175)
  })

  test('costs a millionth of a dollar more or less, not a fraction of it', () => {
    const usage = { start_ms: 1, run_ms: 1, cpu_ms: 123.456, max_rss_bytes: 7 }
    expect(outcomeOf({ usage }).dollars).toBe(0.001735)
  })

  test('costs nothing if the code never started', () => {
    expect(outcomeOf({ status: 'interrupted', started: false }).dollars).toBe(0)
  })

  test('says where it comes from', () => {
    const stdout = captured('x', { truncated: true, bytes_kept: 1, bytes_total: 9 })
    const toolCalls = [{ tool: 'mail', ok: true, ms: 5, args_preview: '\ud800', error: null, bytes: 2, dollars: 0 }]
    const { provenance } = outcomeOf({ stdout }, { toolCalls })
    expect(JSON.parse(JSON.stringify(provenance))).toEqual({
      system: 'python_service',
      worker: { version: '1.2.3', id: 'worker-a' },
      policy: 'full',
      tier: 'namespaces',
      layers: { seccomp: true, landlock: 'the kernel has none' },
      interpreter: { version: '3.11.2', path: '/usr/bin/python3' },
      installed: { numpy: '1.24.2' },
      code_sha256: createHash('sha256').update(Buffer.from('print("é")', 'utf8')).digest('hex'),
      status: 'completed',
      started: true,
      limits: {
        wall_ms: 60_000,
        cpu_ms: null,
        memory_bytes: 512 * MIB,
        processes: 64,
        workspace_bytes: 256 * MIB,
        workspace_files: 16_384,
        file_bytes: 128 * MIB,
        open_files: 256,
        stdout_kept_bytes: 50_000,
        stderr_kept_bytes: 10_000,
      },
      usage: { queue_ms: 7, start_ms: 1, run_ms: 2000, cpu_ms: 1500, max_rss_bytes: 512 * MIB },
      tool_calls: [{ tool: 'mail', ok: true, ms: 5, args_preview: '\ufffd', error: null, bytes: 2, dollars: 0 }],
      truncation: { stdout: { bytes_kept: 1, bytes_total: 9 } },
    })
  })

  test('says that nothing was cut', () => {
    expect(outcomeOf({}).provenance['truncation']).toBe(null)
  })
})
