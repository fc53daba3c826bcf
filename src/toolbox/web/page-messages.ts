import type { AddressPolicy } from './address-policy.js'

/** What the process that reads pages is told, as one line of JSON on its stdin. It holds nothing secret. */
export interface PageJob {
  readonly urls: readonly string[]
  readonly charLimit: number
  readonly policy: AddressPolicy
  readonly limits: PageLimits
}

export interface PageLimits {
  /** Of a body, compressed and decompressed. */
  readonly bodyBytesMax: number
  /** For one page, from the look-up of its name to the end of its body, redirects included. */
  readonly pageMs: number
  /** For fetching all pages of a call. */
  readonly fetchMs: number
  /** For making one page readable; then its plain text is taken. */
  readonly parseMs: number
  /** For making all pages of a call readable: with `fetchMs`, less than `wallMs`. */
  readonly parseAllMs: number
  /** For the whole call; then the process is killed. */
  readonly wallMs: number
  /** Of the process. Then it is killed. */
  readonly rssBytesMax: number
  /** Of JavaScript's heap in it. */
  readonly heapMib: number
}

/** What it answers, one line of JSON on its stdout for each page, in any order. */
export interface PageAnswer {
  /** Of the page in `urls`. */
  readonly index: number
  readonly title: string
  readonly content: string
  readonly error: string | null
}

export const TITLE_CHARS_MAX = 1_000

export const PAGE_LIMITS: PageLimits = {
  bodyBytesMax: 5 * 1024 * 1024,
  pageMs: 10_000,
  fetchMs: 14_000,
  parseMs: 3_000,
  parseAllMs: 5_000,
  wallMs: 20_000,
  rssBytesMax: 400 * 1024 * 1024,
  heapMib: 256,
}
