import { ConfigError } from '../config/report.js'
import { StateDirError } from '../journal/state-dir.js'
import { EXIT_OS, tooManyFiles } from '../open-files.js'
import { PolicyUnavailable } from '../sandbox/restricted-python.js'
import { HealthPortUnavailable } from '../telemetry/health-server.js'
import { readVersion } from '../version.js'
import { backend } from './backend.js'
import { readCommandLine, UsageError } from './command-line.js'
import { demo, dev } from './dev.js'
import { doctor } from './doctor.js'
import { execFile, execLines } from './exec.js'
import { exitNow } from './exit.js'
import { PortUnavailable } from './port-unavailable.js'
import { ScriptUnreadable } from './read-script.js'
import { OutputUnusable } from './saved-files.js'
import { start } from './start.js'
import { EXIT_UNAVAILABLE, unavailableLines } from './unavailable.js'

const HELP = `python-execute-worker: runs model-written Python, each call in a sandbox of its own, for an AI backend.

Usage: python-execute-worker [COMMAND]

  start                            serve the backend that the environment names (default)
  dev [--port N]                   a page, an embedded backend and a worker on this machine, until Ctrl-C
  backend [--host H] [--port N]    that backend alone: the worker that comes gets three sample calls, shown and checked
  demo                             three sample calls, shown live
  exec [--timeout S] [--output DIR] [--quiet] FILE  run a file (- for standard input) in the sandbox:
                                   its stdout on stdout, all else on stderr,
                                   figures as files here, or with all files that it makes in DIR (but hidden ones; 128 MiB
                                   in 200 files); --quiet: no summary
  exec --json [--timeout S] FILE   print the outcome as JSON, and nothing else
  exec --jsonl                     one request a line on standard input, one outcome a line on standard output
  doctor                           which sandbox can be had here, why not a better one, what to do

  --help, --version

Everything else is configured by environment variables: see .env.example.
Exit codes of exec: that of the code; 124 timed out, 125 not run, 130 cancelled, 137 over a limit, 128+N killed by signal N,
141 nobody reads the output.
Other exit codes: 64 wrong use, 66 unreadable file, 69 no sandbox can be had, 70 internal error, 71 a port not to be had,
74 output not writable or files not saved, 77 forbidden by the backend, 78 wrong configuration, or STATE_DIR in use by another worker.
`

const EXIT_USAGE = 64
const EXIT_NO_INPUT = 66
const EXIT_SOFTWARE = 70
const EXIT_IO = 74
const EXIT_CONFIG = 78

async function perform(argv: readonly string[]): Promise<number> {
  const line = readCommandLine(argv)
  switch (line.command) {
    case 'help':
      process.stdout.write(HELP)
      return 0
    case 'version':
      process.stdout.write(`${readVersion()}\n`)
      return 0
    case 'start':
      // At once: Node takes its handlers for signals away before it ends by itself, and a second SIGTERM would be the exit code then.
      return exitNow(await start(process.env))
    case 'dev':
      return await dev(process.env, line.port)
    case 'backend':
      return await backend(process.env, line.host, line.port)
    case 'demo':
      return await demo(process.env)
    case 'doctor':
      return await doctor(process.env, text => process.stdout.write(`${text}\n`))
    case 'exec':
      return await execFile(line, process.env)
    case 'exec-lines':
      return await execLines(process.env)
  }
}

/** What went wrong, for a person, and the exit code that says of which kind it was. */
function explain(error: unknown): { text: string; code: number } {
  if (error instanceof UsageError) return { text: `${error.message}; try --help`, code: EXIT_USAGE }
  if (error instanceof ConfigError) return { text: error.message, code: error.exitCode }
  if (error instanceof PolicyUnavailable) return { text: error.message, code: EXIT_CONFIG }
  if (error instanceof StateDirError) return { text: error.message, code: EXIT_CONFIG }
  const unavailable = unavailableLines(error)
  if (unavailable !== null) return { text: unavailable.join('\n'), code: EXIT_UNAVAILABLE }
  if (error instanceof ScriptUnreadable) return { text: error.message, code: EXIT_NO_INPUT }
  if (error instanceof OutputUnusable) return { text: error.message, code: EXIT_IO }
  if (error instanceof PortUnavailable || error instanceof HealthPortUnavailable)
    return { text: error.message, code: EXIT_OS }
  const words = tooManyFiles(error)
  if (words !== null) return { text: words, code: EXIT_OS }
  return { text: error instanceof Error ? (error.stack ?? error.message) : String(error), code: EXIT_SOFTWARE }
}

/** The command line from its words to the exit code. What goes wrong is said on stderr; never rejects. */
export async function run(argv: readonly string[]): Promise<number> {
  // A reader that has seen enough, as in `… | head`, is no error; commands that should end then listen for it themselves.
  for (const stream of [process.stdout, process.stderr]) {
    stream.on('error', (error: NodeJS.ErrnoException) => {
      if (error.code === 'EPIPE') return
      process.stderr.write(`the output cannot be written: ${error.message}\n`, () => process.exit(EXIT_IO))
    })
  }
  return await perform(argv).catch((error: unknown) => {
    const { text, code } = explain(error)
    process.stderr.write(`${text}\n`)
    return code
  })
}
