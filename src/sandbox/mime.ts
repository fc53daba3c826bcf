/** Media types by the file names that models produce; by name only, nothing is opened. */
const TYPES = new Map(
  Object.entries({
    csv: 'text/csv',
    gif: 'image/gif',
    gz: 'application/gzip',
    html: 'text/html',
    jpeg: 'image/jpeg',
    jpg: 'image/jpeg',
    json: 'application/json',
    md: 'text/markdown',
    parquet: 'application/vnd.apache.parquet',
    pdf: 'application/pdf',
    png: 'image/png',
    py: 'text/x-python',
    svg: 'image/svg+xml',
    tsv: 'text/tab-separated-values',
    txt: 'text/plain',
    webp: 'image/webp',
    xlsx: 'application/vnd.openxmlformats-officedocument.spreadsheetml.sheet',
    xml: 'application/xml',
    yaml: 'application/yaml',
    yml: 'application/yaml',
    zip: 'application/zip',
  }),
)

export function mimeOf(path: string): string {
  const extension = /\.([^./]+)$/.exec(path)?.[1]?.toLowerCase() ?? ''
  return TYPES.get(extension) ?? 'application/octet-stream'
}
