#!/usr/bin/env node
import { parseArgs } from 'node:util'
import { demo, dev, PortUnavailable } from './commands/dev.js'
import { doctor } from './commands/doctor.js'
import { execFile, execLines } from './commands/exec.js'
import { ScriptUnreadable } from './commands/read-script.js'
import { start } from './commands/start.js'
import { ConfigError } from './config/report.js'
import { InterpreterError } from './sandbox/interpreter.js'
import { SandboxUnavailable } from './sandbox/open.js'
import { readVersion } from './version.js'

const HELP = `python-execute-worker: runs model-written Python, each call in a sandbox of its own, for an AI backend.

Usage: python-execute-worker [COMMAND]

  start                            serve the backend that the environment names (default)
  dev [--port N]                   an embedded backend and a worker on this machine, until Ctrl-C
  demo                             three sample calls, shown live
  exec [--json] [--timeout S] FILE run a file (- for standard input) in the sandbox and show what it prints
  exec --jsonl                     one request a line on standard input, one outcome a line on standard output
  doctor                           which sandbox can be had here, why not a better one, what to do

  --help, --version

Everything else is configured by environment variables: see .env.example.
Exit codes of exec: that of the code; 124 timed out, 125 not run, 130 cancelled, 137 over a limit, 128+N killed by signal N,
141 nobody reads the output.
Other exit codes: 64 wrong use, 66 unreadable file, 69 no sandbox can be had, 70 internal error, 71 port of dev not to be had,
74 output not writable, 77 forbidden by the backend, 78 wrong configuration.
`

const EXIT_USAGE = 64
const EXIT_NO_INPUT = 66
const EXIT_UNAVAILABLE = 69
const EXIT_SOFTWARE = 70
const EXIT_OS = 71
const EXIT_IO = 74

class UsageError extends Error {}

async function main(argv: readonly string[]): Promise<number> {
  const { values, positionals } = readArguments(argv)
  if (values.help === true) {
    process.stdout.write(HELP)
    return 0
  }
  if (values.version === true) {
    process.stdout.write(`${readVersion()}\n`)
    return 0
  }
  const [command = 'start', ...operands] = positionals
  const expectOperands = (count: number) => {
    if (operands.length !== count) {
      throw new UsageError(
        `${command} takes ${count === 0 ? 'no operand' : 'one file'}, not ${JSON.stringify(operands)}`,
      )
    }
  }
  switch (command) {
    case 'start':
      expectOperands(0)
      return await start(process.env)
    case 'dev':
      expectOperands(0)
      return await dev(process.env, wholeNumber('--port', values.port ?? '0', 65_535))
    case 'demo':
      expectOperands(0)
      return await demo(process.env)
    case 'doctor':
      expectOperands(0)
      return await doctor(process.env, line => process.stdout.write(`${line}\n`))
    case 'exec': {
      if (values.jsonl === true) {
        expectOperands(0)
        return await execLines(process.env)
      }
      expectOperands(1)
      const timeoutSeconds = values.timeout === undefined ? null : wholeNumber('--timeout', values.timeout, 86_400)
      return await execFile({ file: operands[0] ?? '-', json: values.json === true, timeoutSeconds }, process.env)
    }
    default:
      throw new UsageError(`there is no command ${JSON.stringify(command)}`)
  }
}

function readArguments(argv: readonly string[]) {
  try {
    return parseArgs({
      args: [...argv],
      allowPositionals: true,
      options: {
        help: { type: 'boolean', short: 'h' },
        version: { type: 'boolean' },
        json: { type: 'boolean' },
        jsonl: { type: 'boolean' },
        timeout: { type: 'string' },
        port: { type: 'string' },
      },
    })
  } catch (error) {
    throw new UsageError((error as Error).message)
  }
}

function wholeNumber(name: string, text: string, most: number): number {
  if (!/^\d+$/.test(text) || Number(text) > most) {
    throw new UsageError(`${name} takes a whole number up to ${most}, not ${JSON.stringify(text)}`)
  }
  return Number(text)
}

/** What went wrong, for a person, and the exit code that says of which kind it was. */
function explain(error: unknown): { text: string; code: number } {
  if (error instanceof UsageError) return { text: `${error.message}\n\n${HELP}`, code: EXIT_USAGE }
  if (error instanceof ConfigError) return { text: error.message, code: error.exitCode }
  if (error instanceof SandboxUnavailable || error instanceof InterpreterError) {
    return { text: error.message, code: EXIT_UNAVAILABLE }
  }
  if (error instanceof ScriptUnreadable) return { text: error.message, code: EXIT_NO_INPUT }
  if (error instanceof PortUnavailable) return { text: error.message, code: EXIT_OS }
  return { text: error instanceof Error ? (error.stack ?? error.message) : String(error), code: EXIT_SOFTWARE }
}

// A reader that has seen enough, as in `… | head`, is no error; commands that should end then listen for it themselves.
for (const stream of [process.stdout, process.stderr]) {
  stream.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EPIPE') return
    process.stderr.write(`the output cannot be written: ${error.message}\n`, () => process.exit(EXIT_IO))
  })
}

process.exitCode = await main(process.argv.slice(2)).catch((error: unknown) => {
  const { text, code } = explain(error)
  process.stderr.write(`${text}\n`)
  return code
})
