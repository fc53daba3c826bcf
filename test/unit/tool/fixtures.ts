import type { Config } from '../../../src/config.js'
import type { CapturedText, SandboxFacts, SandboxReport } from '../../../src/outcome.js'
import { CALLED_NOTHING } from '../../../src/tool/outcome-without-run.js'
import type { OutcomeContext } from '../../../src/tool/provenance.js'
import type { PythonArgs } from '../../../src/tool/python-arguments.js'
import type { Invocation } from '../../../src/tool/tool.js'

const MIB = 1024 * 1024

export const config: Config = {
  serviceName: 'python_service',
  backend: null,
  fgroupId: null,
  fuserId: null,
  shared: true,
  stateDir: '/nowhere',
  logLevel: 'silent',
  sandbox: {
    python: 'python3',
    preload: ['numpy', 'pandas'],
    policy: 'full',
    tier: 'auto',
    minTier: 'landlock',
    wallMs: 60_000,
    wallMaxMs: 540_000,
    cpuMs: null,
    memoryBytes: 512 * MIB,
    processes: 64,
    workspaceBytes: 256 * MIB,
    workspaceFiles: 16_384,
    fileBytes: 128 * MIB,
    openFiles: 256,
    stdoutKeptBytes: 50_000,
    stderrKeptBytes: 10_000,
    slots: 4,
  },
  queueMaxCalls: 1000,
  callDeadlineMs: 585_000,
  streamMaxBytes: 256 * 1024,
  tools: {
    callsMax: 50,
    allow: null,
    ask: [],
    deny: [],
    progress: false,
    web: 'off',
    config: null,
  },
  files: { store: 'off', folder: null, threadBytes: 64 * MIB, totalBytes: 512 * MIB, expireMs: 259_200_000, s3: null },
  argumentsMaxBytes: MIB,
  resultMaxBytes: 8 * MIB,
  drainMs: 25_000,
  confirmBefore: 'never',
  exitOnForbidden: false,
  health: { host: '127.0.0.1', port: null },
  prices: { cpuSecondDollars: 0.01, gibSecondDollars: 0.002, callDollars: 0.0005 },
  warnings: [],
}

export const facts: SandboxFacts = {
  tier: 'namespaces',
  layers: [
    { name: 'seccomp', inForce: true },
    { name: 'landlock', inForce: false, why: 'the kernel has none' },
  ],
  interpreter: { path: '/usr/bin/python3', version: '3.11.2' },
  installed: { numpy: '1.24.2' },
  missing: { pandas: 'ModuleNotFoundError: No module named pandas' },
  subprocesses: true,
}

export const context: OutcomeContext = { config, facts, version: '1.2.3', workerId: 'worker-a' }

export function captured(text: string, cut: Partial<CapturedText> = {}): CapturedText {
  const bytes = Buffer.byteLength(text)
  return { text, bytes_total: bytes, bytes_kept: bytes, truncated: false, ...cut }
}

export function reportOf(changes: Partial<SandboxReport> = {}): SandboxReport {
  return {
    status: 'completed',
    exitCode: 0,
    signal: null,
    limit: null,
    stdout: captured(''),
    stderr: captured(''),
    value: null,
    valueText: null,
    shown: { parts: [], images: 0, leftOut: [] },
    files: [],
    notes: [],
    reason: null,
    started: true,
    usage: { start_ms: 1, run_ms: 2000, cpu_ms: 1500, max_rss_bytes: 512 * MIB },
    ...changes,
  }
}

export function invocationOf(changes: Partial<Invocation<PythonArgs>> = {}): Invocation<PythonArgs> {
  return {
    args: { code: 'print(1)', timeout_seconds: null },
    confirmedByHuman: null,
    scenario: '',
    remainingMs: 585_000,
    queueMs: 12,
    signal: new AbortController().signal,
    thread: null,
    toolLog: { earlier: async () => ({ steps: [], isWhole: true }), note: async () => true },
    calledBefore: async () => CALLED_NOTHING,
    stream: () => {},
    ...changes,
  }
}
