import type { Expanded } from './references.js'

/** A shorter secret can't be masked by value: it would garble ordinary text. */
export const SECRET_CHARS_MIN = 12

/** What a server gets of the worker's environment anyway: no secrets, and paths that belong in results. */
const NO_SECRETS = ['PATH', 'HOME', 'LANG', 'TMPDIR']

const SECRET_NAME = /KEY|TOKEN|SECRET|PASSWORD|AUTHORIZATION/i
const NAME_OF_SECRET = /(^|[_-])(KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|AUTHORIZATION)$/i
const LITERAL_CHARS_MIN = 20
const ENTROPY_BITS_MIN = 3

/** The values to be masked wherever they occur: what came from the environment and is long enough to be found again. */
export function secretsIn({ fromEnvironment }: Expanded): string[] {
  return fromEnvironment
    .filter(({ variable, value }) => value.length >= SECRET_CHARS_MIN && !NO_SECRETS.includes(variable))
    .flatMap(({ value }) => withLines(value))
}

/** Of a key in several lines each line too: a log shows them one by one. */
export function withLines(secret: string): string[] {
  const lines = secret.split(/[\r\n]+/).filter(line => line.length >= SECRET_CHARS_MIN)
  return [...new Set([secret, ...lines])]
}

/**
 * Whether a key, token or password stands in the configuration itself: the name says so, and a word of the value is long
 * and as mixed as only generated text is. Paths and URLs are not.
 */
export function holdsLiteralSecret(name: string, literals: readonly string[]): boolean {
  return SECRET_NAME.test(name) && literals.some(text => text.split(/\s+/).some(looksGenerated))
}

/**
 * What stands in the configuration itself under the name of a key, token or password and is no generated text, such as a passphrase:
 * masked too, as nobody expects it in a result. A name that only begins so, such as KEYCLOAK_REALM, is none.
 */
export function literalSecretsIn(name: string, literals: readonly string[]): string[] {
  if (!NAME_OF_SECRET.test(name)) return []
  return literals
    .flatMap(text => [text.trim(), ...text.trim().split(/\s+/)])
    .filter(text => text.length >= SECRET_CHARS_MIN && !isPlace(text))
}

function isPlace(word: string): boolean {
  return /^(~|\.{0,2}\/)|:\/\//.test(word)
}

function looksGenerated(word: string): boolean {
  if (word.length < LITERAL_CHARS_MIN || isPlace(word)) return false
  const kinds = [/[a-z]/, /[A-Z]/, /\d/].filter(kind => kind.test(word)).length
  return kinds >= 2 && entropyBits(word) >= ENTROPY_BITS_MIN
}

/** Shannon's, of one character, by how often each occurs in the text. */
function entropyBits(text: string): number {
  const counts = new Map<string, number>()
  for (const character of text) counts.set(character, (counts.get(character) ?? 0) + 1)
  let bits = 0
  for (const count of counts.values()) bits -= (count / text.length) * Math.log2(count / text.length)
  return bits
}

/** A function that replaces each of the secrets, the longest first: one may be the beginning of another. */
export function maskerOf(secrets: readonly string[]): (text: string) => string {
  const ordered = [...secrets].sort((a, b) => b.length - a.length)
  return text => ordered.reduce((masked, secret) => masked.replaceAll(secret, '[redacted]'), text)
}
