import type { SandboxConfig } from '../../../src/config.js'

const MIB = 1024 * 1024

/** Limits that are met within a second, and no preloads: most tests are about neither. */
export function sandboxConfig(changes: Partial<SandboxConfig> = {}): SandboxConfig {
  return {
    python: 'python3',
    preload: [],
    policy: 'full',
    tier: 'auto',
    minTier: 'landlock',
    wallMs: 20_000,
    wallMaxMs: 30_000,
    cpuMs: 2_000,
    memoryBytes: 160 * MIB,
    processes: 16,
    workspaceBytes: 16 * MIB,
    workspaceFiles: 400,
    fileBytes: 8 * MIB,
    openFiles: 64,
    stdoutKeptBytes: 20_000,
    stderrKeptBytes: 10_000,
    slots: 8,
    ...changes,
  }
}
