import type { KnownCall } from './store.js'

export type Tone = 'good' | 'bad' | 'busy' | 'ask' | 'calm'

/** The state of a call in words, and the tone of its colour; the words alone say it all. */
export function stateOf({ summary, isGone }: KnownCall): { readonly words: string; readonly tone: Tone } {
  switch (summary.state) {
    case 'answered': {
      const status = summary.status ?? 'answered'
      const tone: Tone = status === 'completed' ? 'good' : NEUTRAL.has(status) ? 'calm' : 'bad'
      return { words: status.replaceAll('_', ' '), tone }
    }
    case 'needs_approval':
      return isGone ? { words: 'lost', tone: 'bad' } : { words: 'needs approval', tone: 'ask' }
    case 'waiting':
      return isGone ? { words: 'lost', tone: 'bad' } : { words: 'waiting', tone: 'calm' }
    case 'running':
      return isGone ? { words: 'lost', tone: 'bad' } : { words: 'running', tone: 'busy' }
  }
}

const NEUTRAL = new Set(['cancelled', 'declined', 'answered'])

export function isOpen({ summary, isGone }: KnownCall): boolean {
  return summary.state !== 'answered' && !isGone
}

/** Milliseconds from the call's creation to its answer, or until now. */
export function elapsedMs({ summary }: KnownCall, now: number): number {
  return Math.max(0, (summary.endedAt ?? now) - summary.createdAt)
}

/** For what ticks: tenths of a second, so that nothing jumps. */
export function ticking(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`
}

export function clock(at: number): string {
  return new Date(at).toLocaleTimeString([], { hour12: false })
}
