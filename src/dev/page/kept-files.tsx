import { useEffect, useState } from 'preact/hooks'
import { fileSize } from '../../quantities.js'
import { safeFileName } from '../file-name.js'
import { listFiles } from './server.js'

/** What is kept of the call's thread, to be saved; asked for when the call has its answer. Nothing where nothing is. */
export function KeptFiles({ id }: { readonly id: string }) {
  const [files, setFiles] = useState<Awaited<ReturnType<typeof listFiles>>>([])
  useEffect(() => {
    let isOver = false
    listFiles(id).then(
      found => {
        if (!isOver) setFiles(found)
      },
      () => {}, // the connection's end is shown elsewhere
    )
    return () => {
      isOver = true
    }
  }, [id])
  if (files.length === 0) return null
  return (
    <details open>
      <summary>
        Files <span class="hint">kept for later calls of this thread</span>
      </summary>
      <ul class="files">
        {files.map(({ path, bytes }) => (
          <li key={path}>
            <a
              href={`dev/file?id=${encodeURIComponent(id)}&path=${encodeURIComponent(path)}`}
              download={safeFileName(path)}
            >
              {path}
            </a>{' '}
            <span class="hint">{fileSize(bytes)}</span>
          </li>
        ))}
      </ul>
    </details>
  )
}
