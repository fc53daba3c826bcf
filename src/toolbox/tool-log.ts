import type { Json } from './tool-entry.js'

/**
 * What is written down of the tool calls of one piece of code while it runs, in order: enough to say what was done if the
 * worker dies, and to answer the same calls again without making them, after a person was asked. `n` counts the calls from 0.
 */
export type ToolStep =
  | {
      readonly step: 'called'
      readonly n: number
      readonly tool: string
      /** sha256 of the arguments, hex. */
      readonly hash: string
      readonly argsPreview: string
    }
  | {
      readonly step: 'answered'
      readonly n: number
      readonly ok: boolean
      readonly ms: number
      readonly bytes: number
      readonly dollars: number
      /** What the code was told; left out where it would be too much to keep, and where the sandbox itself did the work. */
      readonly answer?: ToolAnswer
    }
  /** It was not made after all: the run had ended before the tool was called. */
  | { readonly step: 'dropped'; readonly n: number }
  /** It was refused, as a person has to approve it first, or another one before it: of several the first tells when. */
  | {
      readonly step: 'blocked'
      readonly n: number
      readonly tool: string
      readonly hash: string
      readonly argsPreview: string
    }
  /**
   * A person is asked, and shown these tools, named category.tool: their yes covers them and no others. null: another worker, or
   * another life of this one, had asked them before, and what they were shown is not known. Of several the last holds.
   * `shown`: what those who watch have seen of the output of a run that ended for that.
   */
  | {
      readonly step: 'asked'
      readonly tools: readonly string[] | null
      readonly shown?: { readonly units: number; readonly bytes: number; readonly sha256: string }
    }

/** What a tool said: its value, or its failure, a message for the model. `isLost`: see ToolFailure. */
export type ToolAnswer = { readonly value: Json } | { readonly failure: string; readonly isLost: boolean }

/** What has been written down so far. */
export interface EarlierSteps {
  readonly steps: readonly ToolStep[]
  /** false: there was more, which can't be read or has been forgotten. What is left tells what was done, but nothing may be repeated by it. */
  readonly isWhole: boolean
}

/** Of one call of the backend's, whatever a person says meanwhile. */
export interface ToolLog {
  /** Never rejects. */
  earlier(): Promise<EarlierSteps>
  /** Resolves when it would outlive the worker, with false where that can't be had. Never rejects. */
  note(step: ToolStep): Promise<boolean>
}
