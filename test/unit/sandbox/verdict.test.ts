import { describe, expect, it } from 'vitest'
import type { GuestExit, RunEnd } from '../../../src/sandbox/messages.js'
import { verdict } from '../../../src/sandbox/verdict.js'
import { sandboxConfig } from '../../sandbox/support/config.js'

const LIMITS = { config: sandboxConfig(), wallMs: 2_000, cpuMs: 4_000 }

const end = (cause: RunEnd['cause'], rest: Partial<RunEnd> = {}): RunEnd => ({
  event: 'end',
  cause,
  figure: 12_345,
  hint: null,
  run_ms: 2_011,
  cpu_seen_ms: 0,
  cpu_ms: 0,
  peak_bytes: 0,
  baseline_bytes: 0,
  peak_processes: 1,
  workspace_bytes: 777,
  workspace_files: 88,
  workspace_full: false,
  workspace_files_full: false,
  stdout_total: 0,
  stderr_total: 0,
  files: [],
  files_more: 0,
  files_partial: null,
  files_other: { links: 0, hard_links: 0, special: 0 },
  files_gone: [],
  files_unlisted: [],
  ...rest,
})

const exit = (how: Partial<GuestExit>): GuestExit => ({
  event: 'exit',
  sandbox: 1,
  code: null,
  signal: null,
  cpu_ms: 0,
  max_rss_bytes: 0,
  ...how,
})

const KILLED = exit({ signal: 9 })

describe('a run that we ended', () => {
  it.each([
    ['wall', 'timed_out', { name: 'wall', value: 2_000, unit: 'ms', peak: 2_011 }],
    ['cancelled', 'cancelled', null],
    ['memory', 'out_of_memory', { name: 'memory', value: LIMITS.config.memoryBytes, unit: 'bytes', peak: 12_345 }],
    ['cpu', 'limit_exceeded', { name: 'cpu', value: 4_000, unit: 'ms', peak: 12_345 }],
    [
      'processes',
      'limit_exceeded',
      { name: 'processes', value: LIMITS.config.processes, unit: 'processes', peak: 12_345 },
    ],
    [
      'workspace_bytes',
      'limit_exceeded',
      { name: 'workspace_bytes', value: LIMITS.config.workspaceBytes, unit: 'bytes', peak: 12_345 },
    ],
    [
      'workspace_files',
      'limit_exceeded',
      { name: 'workspace_files', value: LIMITS.config.workspaceFiles, unit: 'files', peak: 12_345 },
    ],
  ] as const)('for %s is %s, with the limit and without our signal', (cause, status, limit) => {
    expect(verdict(end(cause), KILLED, LIMITS)).toEqual({ status, exitCode: null, signal: null, limit })
  })
})

describe('a run that ended by itself', () => {
  it('is completed with code 0', () => {
    expect(verdict(end(null), exit({ code: 0 }), LIMITS)).toEqual({
      status: 'completed',
      exitCode: 0,
      signal: null,
      limit: null,
    })
  })

  it('is failed with another code', () => {
    expect(verdict(end(null), exit({ code: 3 }), LIMITS)).toMatchObject({ status: 'failed', exitCode: 3 })
  })

  it.each([
    [11, 'SIGSEGV'],
    [6, 'SIGABRT'],
    [9, 'SIGKILL'],
    [29, 'SIGIO'],
    [31, 'SIGSYS'],
    [40, 'SIG40'],
  ])('has crashed with signal %i, which is %s', (signal, name) => {
    expect(verdict(end(null), exit({ signal }), LIMITS)).toMatchObject({
      status: 'crashed',
      exitCode: null,
      signal: name,
    })
  })

  it('was out of memory where the kernel ended all in its cgroup, with the most that it used', () => {
    const limit = { name: 'memory', value: LIMITS.config.memoryBytes, unit: 'bytes', peak: 98_765 }
    expect(verdict(end(null, { oom_bytes: 98_765 }), KILLED, LIMITS)).toEqual({
      status: 'out_of_memory',
      exitCode: null,
      signal: null,
      limit,
    })
  })

  it('is what its own end was where the kernel ended only what it left behind', () => {
    const left = verdict(end(null, { oom_bytes: 98_765 }), exit({ code: 0 }), LIMITS)
    expect(left).toMatchObject({ status: 'completed', limit: null })
  })

  it('names the full workspace and keeps its status', () => {
    const full = verdict(end(null, { workspace_full: true }), exit({ code: 1 }), LIMITS)
    expect(full).toMatchObject({ status: 'failed', limit: { name: 'workspace_bytes', peak: 777 } })
  })

  it('names the full file table and keeps its status', () => {
    const full = verdict(end(null, { workspace_files_full: true }), exit({ code: 0 }), LIMITS)
    expect(full).toMatchObject({ status: 'completed', limit: { name: 'workspace_files', peak: 88 } })
  })
})
