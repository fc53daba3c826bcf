import { describe, expect, it } from 'vitest'
import { type CommandLine, readCommandLine, UsageError } from '../../../src/commands/command-line.js'

describe('a command line that is understood', () => {
  it.each<[string, CommandLine]>([
    ['', { command: 'start' }],
    ['start', { command: 'start' }],
    ['dev', { command: 'dev', port: null }],
    ['dev --port 8080', { command: 'dev', port: 8080 }],
    ['backend', { command: 'backend', host: '127.0.0.1', port: 0 }],
    ['backend --host 0.0.0.0 --port 80', { command: 'backend', host: '0.0.0.0', port: 80 }],
    ['demo', { command: 'demo' }],
    ['doctor', { command: 'doctor' }],
    ['exec a.py', { command: 'exec', file: 'a.py', json: false, timeoutSeconds: null, output: null, quiet: false }],
    [
      'exec --json --timeout 5 -',
      { command: 'exec', file: '-', json: true, timeoutSeconds: 5, output: null, quiet: false },
    ],
    [
      'exec --output out --quiet a.py',
      { command: 'exec', file: 'a.py', json: false, timeoutSeconds: null, output: 'out', quiet: true },
    ],
    ['exec --jsonl', { command: 'exec-lines' }],
    ['--help', { command: 'help' }],
    ['exec -h', { command: 'help' }],
    ['--version', { command: 'version' }],
  ])('"%s"', (line, expected) => {
    expect(readCommandLine(line.split(' ').filter(word => word !== ''))).toEqual(expected)
  })
})

describe('a command line that is refused', () => {
  it.each([
    ['no-such-command', 'there is no command "no-such-command"'],
    ['exec', 'exec takes one file, but none was given'],
    ['exec a.py b.py', 'exec takes one file; these were given: "a.py" "b.py"'],
    ['exec --jsonl a.py', 'exec --jsonl takes nothing; these were given: "a.py"'],
    ['exec --jsonl --timeout 5', '--timeout does not go with exec --jsonl'],
    ['exec --json --output out a.py', '--output does not go with exec --json, which saves nothing'],
    ['exec --json --quiet a.py', '--quiet does not go with exec --json'],
    ['exec --output= a.py', '--output needs a folder'],
    ['exec --jsonl --json', '--json does not go with exec --jsonl'],
    ['exec --port 1 a.py', '--port does not go with exec'],
    ['exec --timeout soon a.py', '--timeout takes a whole number from 1 to 86400, not "soon"'],
    ['exec --timeout 0 a.py', '--timeout takes a whole number from 1 to 86400, not "0"'],
    ['exec --timeout', '--timeout needs a value'],
    ['exec --timeout --json a.py', '--timeout needs a value'],
    ['exec --json=yes a.py', '--json takes no value'],
    ['dev --port 65536', '--port takes a whole number up to 65535, not "65536"'],
    ['dev --host 0.0.0.0', '--host does not go with dev'],
    ['backend --port -1', '--port needs a value'],
    ['dev --json', '--json does not go with dev'],
    ['start now', 'start takes nothing; these were given: "now"'],
    ['--port 80', '--port does not go with start'],
    ['doctor --json', '--json does not go with doctor'],
    ['demo --timeout 5', '--timeout does not go with demo'],
    ['--no-such-option', 'there is no option --no-such-option'],
    ['exec -x a.py', 'there is no option -x'],
  ])('"%s": %s', (line, message) => {
    expect(() => readCommandLine(line.split(' '))).toThrow(new UsageError(message))
  })
})
