/** Why a page can't be had, as a phrase for the model. Never holds what a server said. */
export class PageError extends Error {
  override readonly name = 'PageError'
}

const WORDS: Readonly<Record<string, string>> = {
  ECONNREFUSED: 'the connection was refused',
  ECONNRESET: 'the server closed the connection before the answer was complete',
  EPIPE: 'the server closed the connection',
  ETIMEDOUT: 'the server can not be reached: no answer in time',
  EHOSTUNREACH: 'the server can not be reached',
  ENETUNREACH: 'the server can not be reached: no route to its network',
  EADDRNOTAVAIL: 'the server can not be reached from here',
  ENOTFOUND: 'there is no host of this name',
  EAI_AGAIN: 'the name of the host can not be looked up just now',
  HPE_HEADER_OVERFLOW: 'the headers of the answer are larger than 16 KiB',
  CERT_HAS_EXPIRED: "the server's certificate has expired",
  DEPTH_ZERO_SELF_SIGNED_CERT: "the server's certificate is self-signed",
  SELF_SIGNED_CERT_IN_CHAIN: "the server's certificate is not signed by a known authority",
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: "the server's certificate can not be verified",
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: "the server's certificate can not be verified",
  ERR_TLS_CERT_ALTNAME_INVALID: "the server's certificate is for another host",
}

/** The phrase for an error of the network, of TLS, of the decompressor, or of our own. */
export function wordsFor(error: unknown): string {
  if (error instanceof PageError) return error.message
  const code = error instanceof Error && 'code' in error ? String(error.code) : ''
  const known = WORDS[code]
  if (known !== undefined) return known
  if (code.startsWith('HPE_')) return 'the server did not answer in HTTP'
  if (code.startsWith('Z_') || code.startsWith('ERR_BROTLI') || code.startsWith('ERR__ERROR_FORMAT')) {
    return 'the answer can not be decompressed'
  }
  if (code.startsWith('ERR_SSL') || code === 'EPROTO') return 'the server did not answer in TLS'
  return 'the page could not be read'
}
