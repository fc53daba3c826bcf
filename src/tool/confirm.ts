import { seconds } from './quantities.js'
import { headOf, showInvisible } from './readable-text.js'
import type { Reply } from './tool.js'

const SHOWN_CHARACTERS = 2000

/**
 * The request that shows a person the code: at most its first 2 000 characters, and a word where that is not all.
 * Characters that could make the code look different from what it does are shown as \u{202e}. The settings key is
 * empty: there is no page to link to. docs/protocol.md, "Asking a person".
 */
export function confirmationRequest(code: string, wallMs: number): Reply {
  const shown = showInvisible(code)
  const command = headOf(shown, SHOWN_CHARACTERS)
  const isCut = command.length < shown.length
  const lines = code.trimEnd().split('\n').length
  const what = `${lines} ${lines === 1 ? 'line' : 'lines'} of Python`
  const part = isCut ? ` Only the first ${command.length} of ${shown.length} characters are shown.` : ''
  return {
    kind: 'confirm',
    setupKey: '',
    command: isCut ? `${command}\n… [cut here: ${command.length} of ${shown.length} characters are shown]` : command,
    explanation: `Run ${what} in an isolated sandbox without network, for up to ${seconds(wallMs)}?${part}`,
  }
}
