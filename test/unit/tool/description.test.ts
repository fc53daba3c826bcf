import { describe, expect, test } from 'vitest'
import type { Config, SandboxConfig } from '../../../src/config.js'
import type { SandboxFacts } from '../../../src/outcome.js'
import { describePython } from '../../../src/tool/description.js'
import { config, facts } from './fixtures.js'

const MIB = 1024 * 1024
const described = (
  sandbox: Partial<SandboxConfig> = {},
  more: Partial<Config> = {},
  other: Partial<SandboxFacts> = {},
) => describePython({ ...config, sandbox: { ...config.sandbox, ...sandbox }, ...more }, { ...facts, ...other }, null)

describe('the description', () => {
  test.each([
    ['the wall time', described({ wallMs: 7000 }), '7 s of wall time'],
    ['the longest wall time', described({ wallMaxMs: 123_000 }), 'up to 123 s'],
    ['CPU time where it has a limit of its own', described({ cpuMs: 9000 }), '9 s of CPU time'],
    ['memory', described({ memoryBytes: 300 * MIB }), '300 MiB of memory'],
    ['processes', described({ processes: 17 }), '17 processes and threads'],
    ['the workspace', described({ workspaceBytes: 99 * MIB }), '99 MiB in 16384 files'],
    ['the number of files', described({ workspaceFiles: 321 }), '321 files'],
    ['the size of a file', described({ fileBytes: 5 * MIB }), 'up to 5 MiB each'],
    ['what is kept of stdout', described({ stdoutKeptBytes: 777 }), '777 bytes of stdout'],
    ['what is kept of stderr', described({ stderrKeptBytes: 555 }), '555 of stderr'],
    ['the interpreter', described({}, {}, { interpreter: { path: 'x', version: '3.13.5' } }), 'Python 3.13.5'],
    ['what is installed', described({}, {}, { installed: { numpy: '2.1', scipy: '1.9' } }), 'numpy 2.1, scipy 1.9.'],
    ['that nothing is installed', described({}, {}, { installed: {} }), 'with the standard library.'],
    [
      'that images are shown',
      described(),
      'matplotlib figures, PIL images as last value and what is given to display() are shown to you (8',
    ],
    ['that a person is asked', described({}, { confirmBefore: 'always' }), 'A person is asked'],
    ['that processes are not available', described({}, {}, { subprocesses: false }), "processes can't be started"],
  ])('tells %s, as configured', (_what, text, part) => {
    expect(text).toContain(part)
  })

  test('says nothing of what does not hold', () => {
    expect(described()).not.toMatch(/CPU|A person|can't be started|pandas/)
  })

  test('speaks of no figures where nothing can be imported', () => {
    expect(described({ policy: 'restricted' })).not.toContain('matplotlib figures')
  })

  test('is short', () => {
    expect(described().length).toBeLessThan(1200)
  })
})
