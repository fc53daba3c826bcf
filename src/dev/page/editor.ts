import { python } from '@codemirror/lang-python'
import { indentUnit, syntaxHighlighting } from '@codemirror/language'
import { Compartment, type EditorState, type Extension, Prec, type TransactionSpec } from '@codemirror/state'
import { oneDarkHighlightStyle } from '@codemirror/theme-one-dark'
import { keymap } from '@codemirror/view'
import { basicSetup, EditorView } from 'codemirror'

const INDENT = '    '

export interface Editor {
  readonly code: string
  replace(code: string): void
  focus(): void
  close(): void
}

/**
 * An editor for Python in `parent`. Ctrl/Cmd+Enter is `onRun`. Tab indents, as people expect of an editor, and so would never let a person
 * leave who has no mouse: Escape does, by `onLeave`.
 */
export function createEditor(
  parent: HTMLElement,
  options: {
    readonly code: string
    readonly label: string
    onRun(): void
    onLeave(): void
    onChange(code: string): void
  },
): Editor {
  const dark = window.matchMedia('(prefers-color-scheme: dark)')
  const scheme = new Compartment()
  const nonce = document.querySelector<HTMLMetaElement>('meta[name=style-nonce]')?.content ?? ''
  const handled = (action: () => void) => () => {
    action()
    return true
  }
  const view = new EditorView({
    parent,
    doc: options.code,
    extensions: [
      EditorView.cspNonce.of(nonce),
      // Before the editor's own meaning of the key, a new line.
      Prec.highest(keymap.of([{ key: 'Mod-Enter', run: handled(options.onRun) }])),
      // Before those of the editor, which gives up a selection first; a list of completions is closed before all of them.
      keymap.of([
        { key: 'Escape', run: handled(options.onLeave) },
        { key: 'Tab', run: indent, shift: outdent },
      ]),
      basicSetup,
      python(),
      indentUnit.of(INDENT),
      scheme.of(colours(dark.matches)),
      EditorView.contentAttributes.of({ 'aria-label': options.label, 'aria-describedby': 'editor-keys' }),
      EditorView.updateListener.of(update => {
        if (update.docChanged) options.onChange(update.state.doc.toString())
      }),
    ],
  })
  const recolour = () => view.dispatch({ effects: scheme.reconfigure(colours(dark.matches)) })
  dark.addEventListener('change', recolour)
  return {
    get code() {
      return view.state.doc.toString()
    },
    replace(code) {
      view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: code }, selection: { anchor: 0 } })
    },
    focus: () => view.focus(),
    close() {
      dark.removeEventListener('change', recolour)
      view.destroy()
    },
  }
}

function colours(isDark: boolean): Extension {
  const theme = EditorView.theme({}, { dark: isDark })
  // The light ones are of basicSetup.
  return isDark ? [theme, syntaxHighlighting(oneDarkHighlightStyle)] : theme
}

function indent({ state, dispatch }: EditorView): boolean {
  const { main } = state.selection
  if (main.empty) {
    const column = main.from - state.doc.lineAt(main.from).from
    dispatch(state.replaceSelection(INDENT.slice(column % INDENT.length)))
  } else dispatch(perLine(state, from => ({ from, insert: INDENT })))
  return true
}

function outdent({ state, dispatch }: EditorView): boolean {
  dispatch(
    perLine(state, (from, text) => ({ from, to: from + (/^ {1,4}|^\t/.exec(text)?.[0].length ?? 0), insert: '' })),
  )
  return true
}

/** One change at each line that the selection touches. */
function perLine(
  state: EditorState,
  change: (from: number, text: string) => { from: number; to?: number; insert: string },
): TransactionSpec {
  const { from, to } = state.selection.main
  const changes: { from: number; to?: number; insert: string }[] = []
  for (let n = state.doc.lineAt(from).number; n <= state.doc.lineAt(to).number; n += 1) {
    const line = state.doc.line(n)
    changes.push(change(line.from, line.text))
  }
  return { changes, userEvent: 'indent' }
}
