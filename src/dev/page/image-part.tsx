import { useEffect, useState } from 'preact/hooks'
import { fileSize } from '../../quantities.js'

/** What a part's own type may be, and how its bytes begin; nothing else is shown as a picture. SVG is none of these: it can carry scripts. */
const SIGNATURES: Readonly<Record<string, { readonly begins: readonly number[]; readonly ending: string }>> = {
  'image/png': { begins: [0x89, 0x50, 0x4e, 0x47], ending: 'png' },
  'image/jpeg': { begins: [0xff, 0xd8, 0xff], ending: 'jpg' },
}

/** A picture of a result, from base64, with a link that saves it. What is not a picture of its type is said to be none. */
export function ImagePart(props: { readonly type: string; readonly base64: string; readonly number: number }) {
  const { type, base64, number } = props
  const [picture, setPicture] = useState<{ url: string; bytes: number } | null | 'broken'>(null)
  const [size, setSize] = useState('')
  const ending = SIGNATURES[type]?.ending ?? ''

  useEffect(() => {
    const bytes = bytesOf(type, base64)
    if (bytes === null) {
      setPicture('broken')
      return
    }
    const url = URL.createObjectURL(new Blob([bytes], { type }))
    setPicture({ url, bytes: bytes.length })
    return () => URL.revokeObjectURL(url)
  }, [type, base64])

  if (picture === null) return null
  if (picture === 'broken') return <p class="hint">[{type} that can not be shown: its bytes are of another kind]</p>
  return (
    <figure>
      <img
        src={picture.url}
        alt={`Figure ${number}`}
        onLoad={({ currentTarget }) => setSize(`${currentTarget.naturalWidth} × ${currentTarget.naturalHeight}`)}
        onError={() => setPicture('broken')}
      />
      <figcaption>
        Figure {number} <span class="hint">{[size, fileSize(picture.bytes)].filter(Boolean).join(' · ')}</span>{' '}
        <a href={picture.url} download={`figure-${number}.${ending}`}>
          Save
        </a>
      </figcaption>
    </figure>
  )
}

export function isPicture(type: string): boolean {
  return type in SIGNATURES
}

function bytesOf(type: string, base64: string): Uint8Array<ArrayBuffer> | null {
  const signature = SIGNATURES[type]
  if (signature === undefined) return null
  try {
    const bytes = Uint8Array.from(atob(base64), character => character.charCodeAt(0))
    return signature.begins.every((byte, n) => bytes[n] === byte) ? bytes : null
  } catch {
    return null
  }
}
