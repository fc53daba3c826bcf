import { useEffect, useRef } from 'preact/hooks'
import { createAnsiReader } from './ansi.js'

/** Within so many pixels of its end a person follows the output, and is kept there. */
const FOLLOWS_PX = 40
/** In the order of Tab, so that it can be scrolled without a mouse. */
const SCROLLS = { tabIndex: 0 }

/**
 * Text as a terminal shows it. Only what is new is added to the document, as text nodes: half a megabyte that grows twenty times a second
 * must not be laid out anew each time.
 */
export function Output({ id, text, label }: { readonly id: string; readonly text: string; readonly label: string }) {
  const element = useRef<HTMLElement>(null)
  const place = useRef<HTMLPreElement>(null)
  const shown = useRef({ id: '', text: '', reader: createAnsiReader() })

  useEffect(() => {
    const { current: box } = element
    const { current: pre } = place
    if (box === null || pre === null) return
    const grows = shown.current.id === id && text.startsWith(shown.current.text)
    const follows = grows && box.scrollHeight - box.scrollTop - box.clientHeight < FOLLOWS_PX
    if (!grows) {
      pre.replaceChildren()
      shown.current = { id, text: '', reader: createAnsiReader() }
    }
    const spans = shown.current.reader.push(text.slice(shown.current.text.length))
    shown.current.text = text
    const nodes = spans.map(span => {
      if (span.style === '') return document.createTextNode(span.text)
      const styled = document.createElement('span')
      styled.className = span.style
      styled.textContent = span.text
      return styled
    })
    const fragment = document.createDocumentFragment()
    for (const node of nodes) fragment.append(node)
    pre.append(fragment)
    if (follows) box.scrollTop = box.scrollHeight
  }, [id, text])

  return (
    <section class="output" ref={element} aria-label={label} {...SCROLLS}>
      <pre ref={place} />
    </section>
  )
}
