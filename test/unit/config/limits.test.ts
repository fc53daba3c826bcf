import { describe, expect, test } from 'vitest'
import type { Environment } from '../../../src/config/report.js'
import { loadConfig } from '../../../src/config.js'
import { local, MIB, refusal } from './fixtures.js'

describe('related limits', () => {
  test.each<[string, Environment, object]>([
    ['a small workspace', { SANDBOX_WORKSPACE_MB: '32' }, { workspaceBytes: 32 * MIB, fileBytes: 32 * MIB }],
    ['a large file', { SANDBOX_FILE_MB: '300' }, { workspaceBytes: 300 * MIB, fileBytes: 300 * MIB }],
    [
      'little memory',
      { SANDBOX_MEMORY_MB: '64' },
      { memoryBytes: 64 * MIB, workspaceBytes: 64 * MIB, fileBytes: 64 * MIB },
    ],
    ['a short longest wall time', { SANDBOX_WALL_MAX_MS: '5000' }, { wallMs: 5_000, wallMaxMs: 5_000 }],
    ['a long wall time', { SANDBOX_WALL_MS: '540000' }, { wallMs: 540_000, wallMaxMs: 540_000 }],
    ['a short wall time', { SANDBOX_WALL_MS: '2000' }, { wallMs: 2_000, wallMaxMs: 540_000 }],
    ['a short deadline', { CALL_DEADLINE_MS: '30000' }, { wallMs: 27_000, wallMaxMs: 27_000 }],
    [
      'a wall time near a short deadline',
      { CALL_DEADLINE_MS: '30000', SANDBOX_WALL_MS: '29000' },
      { wallMs: 29_000, wallMaxMs: 29_000 },
    ],
    [
      'the limits of a test run',
      { SANDBOX_WALL_MS: '2000', SANDBOX_MEMORY_MB: '256', SANDBOX_PROCESSES: '32', LANG: 'C' },
      { processes: 32 },
    ],
  ])('fit to the one that is set, without a warning: %s', (_, env, sandbox) => {
    const config = local(env)
    expect(config.sandbox).toMatchObject(sandbox)
    expect(config.warnings).toEqual([])
  })

  test.each<[Environment, string]>([
    [
      { SANDBOX_WALL_MS: '3000', SANDBOX_WALL_MAX_MS: '2000' },
      'SANDBOX_WALL_MS: got "3000"; give at most SANDBOX_WALL_MAX_MS, which is 2000',
    ],
    [
      { SANDBOX_WALL_MAX_MS: '30000', CALL_DEADLINE_MS: '30000' },
      'SANDBOX_WALL_MAX_MS: got "30000"; give less than CALL_DEADLINE_MS',
    ],
    [
      { SANDBOX_WALL_MS: '30000', CALL_DEADLINE_MS: '20000' },
      'SANDBOX_WALL_MS: got "30000"; give less than CALL_DEADLINE_MS',
    ],
    [
      { SANDBOX_FILE_MB: '64', SANDBOX_WORKSPACE_MB: '32' },
      'SANDBOX_FILE_MB: got "64"; give at most SANDBOX_WORKSPACE_MB, which is 32',
    ],
    [
      { ARGUMENTS_MAX_BYTES: '2097152', SANDBOX_FILE_MB: '1' },
      'ARGUMENTS_MAX_BYTES: got "2097152"; give at most SANDBOX_FILE_MB, which is 1048576 bytes',
    ],
    [{ SANDBOX_TIER: 'landlock', SANDBOX_MIN_TIER: 'namespaces' }, 'SANDBOX_TIER: got "landlock"; '],
  ])('that contradict each other are refused: %j', (env, line) => {
    const text = refusal(env)
    expect(text).toContain('(1 error)')
    expect(text).toContain(line)
  })

  test('warn of a workspace that memory cannot hold', () => {
    const { warnings } = local({ SANDBOX_WORKSPACE_MB: '1024' })
    expect(warnings).toEqual([
      expect.stringContaining('the workspace (1024 MiB) is larger than the memory limit (SANDBOX_MEMORY_MB=512)'),
    ])
  })
})

describe('calls at once', () => {
  const slots = (cpus: number, memoryMib: number, env: Environment = {}) =>
    loadConfig(env, { cpus, memoryBytes: memoryMib * MIB }, { backend: false })

  test.each<[string, number, number, Environment, number]>([
    ['bounded by CPUs', 2, 64_000, {}, 8],
    ['bounded by half a CPU', 0.5, 64_000, {}, 2],
    ['bounded by memory', 16, 2_600, {}, 4],
    ['bounded by memory at another limit', 16, 2_600, { SANDBOX_MEMORY_MB: '256' }, 8],
    ['fewer when configured', 2, 64_000, { MAX_CONCURRENT_CALLS: '3' }, 3],
  ])('are %s', (_, cpus, memoryMib, env, expected) => {
    const config = slots(cpus, memoryMib, env)
    expect(config.sandbox.slots).toBe(expected)
    expect(config.warnings).toEqual([])
  })

  test('may be more than fit, with one warning that shows the arithmetic', () => {
    const config = slots(2, 2_600, { MAX_CONCURRENT_CALLS: '32' })
    expect(config.sandbox.slots).toBe(32)
    expect(config.warnings).toEqual([
      expect.stringContaining(
        'MAX_CONCURRENT_CALLS=32 is more than this machine surely holds: min(4 × 2 CPUs = 8, (2600 MiB − 512 MiB) ÷ 512 MiB = 4) = 4',
      ),
    ])
  })

  test.each([
    [2, 300],
    [0.1, 64_000],
  ])('are one at least, with a warning, on %d CPUs and %d MiB', (cpus, memoryMib) => {
    const config = slots(cpus, memoryMib)
    expect(config.sandbox.slots).toBe(1)
    expect(config.warnings).toEqual([expect.stringContaining('one call at once')])
  })
})
