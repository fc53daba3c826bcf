const MOST_UNITS = 100

/**
 * A name under which a browser may save what code has named: the last part of the path, without what could hide its ending, name a device or
 * a hidden file; never empty.
 */
export function safeFileName(path: string, otherwise = 'file'): string {
  const last = path.toWellFormed().split(/[/\\]/).at(-1) ?? ''
  const plain = last
    .replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}<>:"|?*%]/gu, '_')
    .replace(/^[.\s~-]+|[.\s]+$/g, '')
    .replace(/^(con|prn|aux|nul|com\d|lpt\d)(?=\.|$)/i, '_$1')
  if (plain.length <= MOST_UNITS) return plain === '' ? otherwise : plain
  const dot = plain.lastIndexOf('.')
  const ending = dot > 0 && plain.length - dot <= 10 ? plain.slice(dot) : ''
  return plain.slice(0, MOST_UNITS - ending.length).toWellFormed() + ending
}
