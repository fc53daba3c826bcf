import type { HandledCall } from '../../../src/telemetry/status.js'

/** A call that went well. */
export const CALL: HandledCall = {
  at: 0,
  status: 'completed',
  killedFor: null,
  queueMs: 2,
  refused: null,
  startMs: 3,
  runMs: 40,
  totalMs: 50,
  delivered: true,
  postAttempts: 1,
  deltaBytesDropped: 0,
  dollars: 0,
}
