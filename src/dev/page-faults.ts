import type { EmbeddedBackend } from './embedded-backend.js'
import type { Fault } from './page-protocol.js'

/** The faults that a person can switch on at the page, as misbehaviours of the backend. */
export interface PageFaults {
  readonly active: readonly Fault[]
  set(fault: Fault, on: boolean): void
}

export function createPageFaults(backend: EmbeddedBackend): PageFaults {
  const undo = new Map<Fault, () => void>()
  return {
    get active() {
      return [...undo.keys()]
    },
    set(fault, on) {
      undo.get(fault)?.()
      undo.delete(fault)
      if (on) undo.set(fault, begin(backend, fault))
    },
  }
}

function begin(backend: EmbeddedBackend, fault: Fault): () => void {
  switch (fault) {
    case 'refuse_posts':
      return backend.misbehave({ kind: 'http_status', status: 503 }, { operation: 'cloudtool_post_result' })
    case 'refuse_connections':
      return backend.misbehave({ kind: 'refuse_upgrade', status: 503 })
    case 'silence':
      return backend.misbehave({ kind: 'freeze' })
  }
}
