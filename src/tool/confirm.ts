import type { Outcome } from '../outcome.js'
import { seconds } from '../quantities.js'
import type { Mask } from './masked.js'
import { headOf, showInvisible } from './readable-text.js'
import type { Reply } from './tool.js'

const SHOWN_CHARACTERS = 2000
/** Tools that one request may name. More than a person reads would be approved unread, and none is left out of the list. */
export const TOOLS_IN_REQUEST_MOST = 50

/**
 * The request that shows a person the code: at most its first 2 000 characters, and a word where that is not all.
 * Characters that could make the code look different from what it does are shown as \u{202e}. The settings key is
 * empty: there is no page to link to. docs/protocol.md, "Asking a person". `tools`: those that the code may call once it is
 * approved, named category.tool; they come first, as people read the beginning, and all of them whole: a yes covers what is
 * shown. `outcome`: of a run that ended to ask this. `mask` hides secrets, before anything is cut.
 */
export function confirmationRequest(
  code: string,
  wallMs: number,
  {
    tools = [],
    outcome = null,
    mask = text => text,
  }: { readonly tools?: readonly string[]; readonly outcome?: Outcome | null; readonly mask?: Mask | undefined } = {},
): Reply {
  const shown = showInvisible(mask(code))
  const command = headOf(shown, SHOWN_CHARACTERS)
  const isCut = command.length < shown.length
  const lines = code.trimEnd().split('\n').length
  const what = `${lines} ${lines === 1 ? 'line' : 'lines'} of Python`
  const part = isCut ? ` Only the first ${command.length} of ${shown.length} characters are shown.` : ''
  return {
    kind: 'confirm',
    setupKey: '',
    command: isCut ? `${command}\n… [cut here: ${command.length} of ${shown.length} characters are shown]` : command,
    explanation: `Run ${what} in an isolated sandbox without network${withTools(tools, mask)}, for up to ${seconds(wallMs)}?${outcome === null ? '' : BEGUN}${part}`,
    outcome,
  }
}

const BEGUN = ' It has run up to that call, and begins anew.'

function withTools(tools: readonly string[], mask: Mask): string {
  return tools.length === 0 ? '' : `, letting it call ${tools.map(name => mask(shownName(name))).join(', ')}`
}

/** Names are the servers' own: one that could be read as two, or as another, stands in quotes. No two are shown alike. */
function shownName(name: string): string {
  if (/^[\w./-]+$/.test(name)) return name
  const hidden = /(?! )[\p{C}\p{Z}\p{Default_Ignorable_Code_Point}]/gu
  return JSON.stringify(name).replace(hidden, char => `\\u{${(char.codePointAt(0) ?? 0).toString(16)}}`)
}
