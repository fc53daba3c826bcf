import picomatch from 'picomatch'
import { z } from 'zod'

/** The shape of one server in TOOLS_CONFIG. Each message completes "got …; " by saying what would be right. */

const text = (right: string) => z.string({ error: right }).refine(value => value !== '' && !value.includes('\0'), right)

const whole = (unit: string, min: number, max: number) => {
  const right = `give a whole number of ${unit} from ${min} to ${max}`
  return z.int({ error: right }).min(min, right).max(max, right).optional()
}

const GLOB = 'give a glob over names of tools, such as read_*'
const glob = text(GLOB).refine(value => value.length <= 200 && compiles(value), GLOB)
const globs = z.array(glob, { error: 'give a list of globs over names of tools, such as ["read_*"]' }).optional()

function compiles(value: string): boolean {
  try {
    picomatch(value, { strictBrackets: true })
    return true
  } catch {
    return false
  }
}

/** A Record's value messages; names are checked with their values, so that the fault can show which. */
const values = (what: string) =>
  z.record(z.string(), z.string({ error: 'give the value as a string, in quotes' }), {
    error: `give an object of ${what}, names with values`,
  })

const common = {
  disabled: z.boolean({ error: 'give true or false' }).optional(),
  description: text('give a line of text').optional(),
  timeoutMs: whole('milliseconds', 100, 3_600_000),
  startTimeoutMs: whole('milliseconds', 100, 600_000),
  maxConcurrent: whole('calls', 1, 256),
  allow: globs,
  deny: globs,
  ask: globs,
  free: globs,
  secretEnv: z
    .array(text('give the name of an entry of env or headers'), {
      error: 'give a list of names of entries of env or headers',
    })
    .optional(),
}

export const stdioShape = z.object({
  ...common,
  type: z.literal('stdio').optional(),
  command: text('give the program that is the server, such as "npx"'),
  args: z.array(z.string({ error: 'give a string' }), { error: 'give a list of strings' }).optional(),
  env: values('environment variables').optional(),
  cwd: text('give the path of a folder').optional(),
})

const URL_RIGHT = 'give the http or https URL of the server, without user and password'

export const httpShape = z.object({
  ...common,
  type: z.enum(['http', 'streamable-http', 'streamableHttp']).optional(),
  url: z.string({ error: URL_RIGHT }).refine(isServerUrl, URL_RIGHT),
  headers: values('headers').optional(),
})

function isServerUrl(value: string): boolean {
  const url = URL.canParse(value) ? new URL(value) : null
  return url !== null && /^https?:$/.test(url.protocol) && url.username === '' && url.password === ''
}

export const TYPES = ['stdio', 'http', 'streamable-http', 'streamableHttp']
