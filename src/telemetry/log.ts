import tty from 'node:tty'
import { type DestinationStream, type Logger, pino } from 'pino'
import { prettyFactory } from 'pino-pretty'
import type { Config } from '../config.js'
import { openLogSink } from './log-sink.js'
import { MASK, Redactor } from './redactor.js'

export interface LogOptions {
  readonly level: Config['logLevel']
  /** Lines for a person at a terminal instead of JSON. */
  readonly pretty: boolean
  /** `exec` logs to stderr, since its stdout holds only answers. Default: stdout. */
  readonly destination?: 'stdout' | 'stderr' | DestinationStream
  /** Nobody reads the lines any more (EPIPE); told once, and never for a destination that was given. */
  readonly onBroken?: () => void
  /** Colours in pretty lines; default: on a terminal, unless NO_COLOR is set. */
  readonly colour?: boolean
  /** The secrets that are masked wherever they occur, whatever field or text they got into. */
  readonly redactor?: Redactor
}

const MESSAGE_CHARS = 2_000
const STACK_CHARS = 8_000
const CAUSES_MAX = 4

/** Names under which a credential or a call's capability travels, on the wire and in our own objects. */
const SECRET_KEYS = [
  'fcall_untrusted_key',
  'x-flexus-call-untrusted-key',
  'x-flexus-superuser',
  'x-flexus-ws-ticket',
  'X-Vault-Token',
  'x-vault-token',
  'authorization',
  'Authorization',
  'apikey',
  'apiKey',
  'ticket',
  'FLEXUS_API_KEY',
  'FLEXUS_WS_TICKET',
]

/** pino's paths know wildcards for one level each: these cover a field, and fields of objects down to three levels. */
const REDACTED_PATHS = SECRET_KEYS.flatMap(key => ['', '*', '*.*', '*.*.*'].map(parent => `${parent}["${key}"]`))

/**
 * The names that are no ordinary words, inside longer text: as JSON that a library put into an error message (its quotes are
 * escaped there, once or more; always with a quoted value, so that the line stays JSON), and as "name: value" or "name=value".
 * Then the shapes that credentials have on their own.
 */
const KEYS_IN_TEXT = SECRET_KEYS.filter(key => key !== 'ticket').join('|')
const SECRETS_IN_TEXT: readonly (readonly [RegExp, string])[] = [
  [new RegExp(`((?:${KEYS_IN_TEXT})\\\\*"\\s*:\\s*\\\\*")[^"\\\\]+`, 'g'), `$1${MASK}`],
  [new RegExp(`((?:${KEYS_IN_TEXT})\\s*[:=]\\s*)(?:Bearer\\s+)?[^"\\\\\\s,}\\]]+`, 'g'), `$1${MASK}`],
  [/\bBearer\s+[^"\\\s,}\]]+/g, `Bearer ${MASK}`],
  [/\bfx-[\w.~+/-]{6,}=*/g, MASK],
  [/\bcurr-secret-password-for-[^"\\\s,}\]]+/g, MASK],
]

/**
 * Makes the worker's logger: one JSON object a line with ISO time and the level's name, or pretty lines. Both are written
 * at once, and never hold the process: see openLogSink. Callers keep secrets out of fields and messages; the masking here is the second
 * line of defence. A log that cannot be written (pipe closed, disk full) never ends the process.
 */
export function createLog({
  level,
  pretty,
  destination = 'stdout',
  onBroken = () => {},
  colour,
  redactor = new Redactor(),
}: LogOptions): Logger {
  const fd = destination === 'stderr' ? 2 : 1
  const sink = typeof destination === 'object' ? destination : openLogSink({ fd, onBroken, onDropped })
  const colorize = colour ?? (typeof destination !== 'object' && tty.isatty(fd) && !process.env['NO_COLOR'])
  const log = pino(
    {
      level,
      // Without pid and hostname: containers have pid 1 and the collector adds the host.
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: label => ({ level: label }) },
      redact: { paths: REDACTED_PATHS, censor: MASK },
      serializers: { err: serialize, error: serialize },
      hooks: { streamWrite: line => maskSecrets(redactor.mask(line)) },
    },
    pretty ? prettySink(sink, colorize) : sink,
  )
  return log

  function serialize(thrown: unknown): Record<string, string> {
    return serializeError(thrown, redactor)
  }

  function onDropped(lines: number): void {
    log.warn({ lines }, 'log lines were lost: nobody read them in time, or they could not be written')
  }
}

/** A plain function instead of pino-pretty's stream: that one is asynchronous and loses lines at exit. */
function prettySink(sink: DestinationStream, colorize: boolean): DestinationStream {
  const format = prettyFactory({ colorize, translateTime: 'SYS:HH:MM:ss.l' })
  return {
    write(line) {
      sink.write(format(line))
    },
  }
}

function maskSecrets(line: string): string {
  let masked = line
  for (const [pattern, replacement] of SECRETS_IN_TEXT) masked = masked.replace(pattern, replacement)
  return masked
}

/**
 * Type, message (with those of its causes) and stack; no other field, since clients hang whole requests on errors. Masked before
 * they are bounded: the cut could leave half a secret.
 */
function serializeError(thrown: unknown, redactor: Redactor): Record<string, string> {
  const limited = (text: string, chars: number) => bounded(redactor.mask(text), chars)
  if (!(thrown instanceof Error)) return { type: typeof thrown, message: limited(String(thrown), MESSAGE_CHARS) }
  return {
    type: thrown.name,
    message: limited(messageWithCauses(thrown), MESSAGE_CHARS),
    stack: limited(withoutRequest(thrown.stack ?? ''), STACK_CHARS),
  }
}

function messageWithCauses(error: Error): string {
  const messages: string[] = []
  let current: unknown = error
  while (current instanceof Error && messages.length < CAUSES_MAX) {
    // A refused connection to a name with several addresses is an AggregateError with an empty message.
    const parts: readonly unknown[] =
      current instanceof AggregateError && current.message === '' ? current.errors : [current]
    messages.push(parts.map(part => withoutRequest(part instanceof Error ? part.message : String(part))).join('; '))
    current = current.cause
  }
  return messages.join(': ')
}

/** graphql-request ends its messages with the whole response and request, variables included. */
function withoutRequest(text: string): string {
  return text.replace(/: \{"response":.*$/gm, '')
}

function bounded(text: string, chars: number): string {
  return text.length <= chars
    ? text
    : `${text.slice(0, chars).toWellFormed()}… (${text.length - chars} more characters)`
}
