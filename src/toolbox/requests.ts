import { z } from 'zod'
import { exactJson } from '../exact-json.js'
import { shapeOfRequest } from './request-shape.js'
import type { Json } from './tool-entry.js'

/** What the library in the sandbox asks for, in JSON; python/toolbox is the other end. The code can send anything. */

/** Of lists and objects in each other: the library lets arguments nest 100 deep, and they lie three deep themselves. */
const DEPTH_MOST = 104
/** Each takes some fifty bytes of memory, however short it is written. */
const VALUES_MOST = 100_000

const NAME = z.string('must be text').max(1_000, 'may have no more than 1,000 characters')
const LIMIT = 'must be a whole number from 1 to 100'
const id = z.number().int().min(0)
const json = z.custom<Json>(() => true)

const Request = z.discriminatedUnion('op', [
  z.object({
    id,
    op: z.literal('call'),
    category: NAME,
    tool: NAME,
    args: z.array(json).max(1_000),
    // As JSON.parse made it: a record of zod's leaves out a parameter that is called __proto__.
    kw: z.custom<{ readonly [name: string]: Json }>(isObject),
  }),
  /** The end of a tool that runs inside the sandbox; is not answered. */
  z.object({
    id,
    op: z.literal('done'),
    of: id,
    ok: z.boolean(),
    error: z.string().max(10_000).nullable(),
    bytes: z.number().min(0),
  }),
  /** category: one whose tools are to be there, also where they are not known yet. */
  z.object({ id, op: z.literal('catalog'), category: NAME.optional() }),
  z.object({ id, op: z.literal('ls'), path: NAME }),
  z.object({ id, op: z.literal('read'), path: NAME }),
  z.object({ id, op: z.literal('tree'), path: NAME }),
  z.object({ id, op: z.literal('search'), words: NAME, limit: z.int(LIMIT).min(1, LIMIT).max(100, LIMIT) }),
])

function isObject(value: unknown): boolean {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

export type Request = z.infer<typeof Request>
export type CallRequest = Extract<Request, { readonly op: 'call' }>

type Refusal = 'tool' | 'lost' | 'unknown' | 'arguments' | 'denied' | 'needs_confirmation' | 'budget' | 'ended'

export type Answer =
  | { readonly ok: true; readonly value: Json }
  /** The tool is the sandbox's to run, with these arguments. */
  | { readonly ok: true; readonly local: true; readonly kw: { readonly [name: string]: Json } }
  | { readonly ok: false; readonly kind: Refusal; readonly message: string }

export type Parsed =
  /** `values`: how many it is made of, about. */
  | { readonly request: Request; readonly values: number }
  /** No request that there is, but it has a number, so that it can be told. */
  | { readonly id: number; readonly problem: string }

/** null: nothing that can be answered. What is too large to be parsed is not. */
export function parseRequest(payload: Buffer): Parsed | null {
  const { id, depth, values } = shapeOfRequest(payload)
  if (id === null) return null
  if (depth > DEPTH_MOST) return { id, problem: `the arguments are nested ${depth} deep, and may be 100 deep at most` }
  if (values > VALUES_MOST) {
    return {
      id,
      problem: `the arguments are some ${values} values, and may be ${VALUES_MOST} at most: pass text, or fewer`,
    }
  }
  let json: unknown
  try {
    json = JSON.parse(payload.toString('utf8'))
  } catch {
    return { id, problem: 'the request is no JSON' }
  }
  const parsed = Request.safeParse(json)
  if (parsed.success) return { request: parsed.data, values }
  const issue = parsed.error.issues[0]
  const place = issue?.path.join('.') ?? ''
  return { id, problem: `${place === '' ? 'the request' : place} ${issue?.message ?? 'is none that there is'}` }
}

export function packAnswer(to: number, answer: Answer): Buffer {
  return Buffer.from(exactJson({ id: to, ...answer }), 'utf8')
}
