import { describe, expect, test } from 'vitest'
import type { Environment } from '../../../src/config/report.js'
import { loadConfig } from '../../../src/config.js'
import { local, MIB, refusal } from './fixtures.js'

describe('related limits', () => {
  test.each<[string, Environment, object]>([
    ['a small workspace', { SANDBOX_WORKSPACE_MB: '32' }, { workspaceBytes: 32 * MIB, fileBytes: 32 * MIB }],
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
      expect.stringContaining(
        'the workspace (SANDBOX_WORKSPACE_MB, 1024 MiB) is larger than the memory limit (SANDBOX_MEMORY_MB=512)',
      ),
    ])
  })

  test('warn of a file that raises the workspace, and of what memory then can not hold', () => {
    const raised = local({ SANDBOX_FILE_MB: '300' })
    expect(raised.sandbox).toMatchObject({ workspaceBytes: 300 * MIB, fileBytes: 300 * MIB })
    expect(raised.warnings).toEqual([
      'SANDBOX_FILE_MB=300 raises SANDBOX_WORKSPACE_MB, which is not set, from 256 to 300',
    ])
    expect(local({ SANDBOX_FILE_MB: '9999' }).warnings).toEqual([
      'SANDBOX_FILE_MB=9999 raises SANDBOX_WORKSPACE_MB, which is not set, from 256 to 9999',
      expect.stringContaining('the workspace (SANDBOX_WORKSPACE_MB, 9999 MiB) is larger than the memory limit'),
    ])
    expect(local({ SANDBOX_FILE_MB: '300', SANDBOX_WORKSPACE_MB: '300' }).warnings).toEqual([])
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

  test('may be more than memory holds, with one warning that shows the arithmetic and what would be right', () => {
    const config = slots(2, 2_600, { MAX_CONCURRENT_CALLS: '32' })
    expect(config.sandbox.slots).toBe(32)
    expect(config.warnings).toEqual([
      'MAX_CONCURRENT_CALLS=32 needs 512 MiB for the worker and 32 × 512 MiB, 16896 MiB of memory, and there are 2600 MiB: ' +
        'calls that use their limits together may run out; give the container at least 16896 MiB, or lower ' +
        'MAX_CONCURRENT_CALLS or SANDBOX_MEMORY_MB',
    ])
  })

  test.each<[number, Environment, number]>([
    [300, {}, 1_024],
    [24_000, { SANDBOX_MEMORY_MB: '100000' }, 100_512],
    [24_000, { SANDBOX_MEMORY_MB: '100000', MAX_CONCURRENT_CALLS: '1' }, 100_512],
  ])('are one at least, with a warning of what that one needs, in %d MiB with %j', (memoryMib, env, needMib) => {
    const config = slots(2, memoryMib, env)
    expect(config.sandbox.slots).toBe(1)
    expect(config.warnings).toHaveLength(1)
    const [warning] = config.warnings
    expect(warning).toContain(`and there are ${memoryMib} MiB`)
    expect(warning).toMatch(new RegExp(`; give the container at least ${needMib} MiB, or lower SANDBOX_MEMORY_MB$`))
    expect(warning).not.toMatch(/together|−|-\d/)
  })

  test.each<[number, Environment, string]>([
    [
      0.1,
      {},
      'one call at once (the least) is more than 0.1 CPUs serve well (4 for each): code runs slowly; give the container 0.25 CPUs',
    ],
    [2, { MAX_CONCURRENT_CALLS: '32' }, '; give the container 8 CPUs, or lower MAX_CONCURRENT_CALLS'],
  ])('may be more than %d CPUs serve well, with a warning', (cpus, env, words) => {
    expect(slots(cpus, 64_000, env).warnings).toEqual([expect.stringContaining(words)])
  })
})
