import type { SocketKind } from './records.js'

/**
 * What the embedded backend can be told to do wrong until it is told otherwise. With `commit` true the request is carried out first
 * and only its answer is spoilt: the case in which a worker that tries again makes a duplicate.
 */
export type Misbehaviour =
  /** Answers HTTP with this status; the body defaults to a plain sentence. */
  | {
      readonly kind: 'http_status'
      readonly status: number
      readonly body?: string
      readonly headers?: Readonly<Record<string, string>>
      readonly commit?: boolean
    }
  /** Waits before it carries the request out, or with `commit` before it answers. Adds to whatever else is asked for. */
  | { readonly kind: 'http_delay'; readonly ms: number; readonly commit?: boolean }
  /** Resets the TCP connection. */
  | { readonly kind: 'http_reset'; readonly commit?: boolean }
  /** Status 200 and this text, which need not be JSON. */
  | { readonly kind: 'http_body'; readonly body: string; readonly commit?: boolean }
  /** Status 200 and a GraphQL error with this message, for example "460: …". */
  | { readonly kind: 'graphql_error'; readonly message: string; readonly commit?: boolean }
  /** Answers the websocket's upgrade request with this status. */
  | { readonly kind: 'refuse_upgrade'; readonly status: number }
  /** Never answers the upgrade request. */
  | { readonly kind: 'hang_upgrade' }
  /** Takes connection_init and says nothing. */
  | { readonly kind: 'never_ack' }
  /** Closes after connection_init. */
  | { readonly kind: 'refuse_init'; readonly code: number; readonly reason: string }
  /** Answers the subscription with an `error` message. */
  | { readonly kind: 'subscription_error'; readonly message: string }
  /** Reads nothing, so answers no ping either, and delivers nothing; on open and new websockets alike. */
  | { readonly kind: 'freeze' }

/** Where and how often; without it everywhere until cleared. */
export interface Scope {
  /** After so many uses the rule is gone. */
  readonly times?: number
  /** HTTP rules only: the mutation's name, for example cloudtool_post_result. */
  readonly operation?: string
  /** Upgrade rules and freeze only. */
  readonly socket?: SocketKind
}

type Kind = Misbehaviour['kind']
type Of<K extends Kind> = Extract<Misbehaviour, { kind: K }>
export type HttpMisbehaviour = Of<'http_status' | 'http_reset' | 'http_body' | 'graphql_error'>

export interface Rulebook {
  /** Returns the function that takes this rule away again. */
  add(rule: Misbehaviour, scope?: Scope): () => void
  clear(): void
  /** The oldest rule of one of these kinds that fits, or null; counts as one use. */
  take<K extends Kind>(kinds: readonly K[], where: { operation?: string; socket?: SocketKind }): Of<K> | null
  /** Every such delay, each counting as one use. */
  takeDelays(operation: string): readonly Of<'http_delay'>[]
  isFrozen(socket: SocketKind): boolean
}

interface ActiveRule {
  readonly rule: Misbehaviour
  readonly scope: Scope
  left: number
}

/** `onChange` runs after a rule came or was cleared (not after one was used up). */
export function createRulebook(onChange: () => void): Rulebook {
  const rules = new Set<ActiveRule>()

  function use(active: ActiveRule): void {
    active.left -= 1
    if (active.left <= 0) rules.delete(active)
  }

  return {
    add(rule, scope = {}) {
      const active: ActiveRule = { rule, scope, left: scope.times ?? Number.POSITIVE_INFINITY }
      rules.add(active)
      onChange()
      return () => {
        if (rules.delete(active)) onChange()
      }
    },
    clear() {
      rules.clear()
      onChange()
    },
    take(kinds, where) {
      for (const active of rules) {
        const found = kinds.find(kind => isOf(active.rule, kind))
        if (found === undefined || !fits(active.scope, where)) continue
        const { rule } = active
        if (!isOf(rule, found)) continue
        use(active)
        return rule
      }
      return null
    },
    takeDelays(operation) {
      const found: Of<'http_delay'>[] = []
      for (const active of [...rules]) {
        if (!isOf(active.rule, 'http_delay') || !fits(active.scope, { operation })) continue
        use(active)
        found.push(active.rule)
      }
      return found
    },
    isFrozen(socket) {
      return [...rules].some(active => active.rule.kind === 'freeze' && fits(active.scope, { socket }))
    },
  }
}

function isOf<K extends Kind>(rule: Misbehaviour, kind: K): rule is Of<K> {
  return rule.kind === kind
}

function fits(scope: Scope, where: { operation?: string; socket?: SocketKind }): boolean {
  if (scope.operation !== undefined && scope.operation !== where.operation) return false
  return scope.socket === undefined || scope.socket === where.socket
}
