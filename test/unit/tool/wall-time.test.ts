import { describe, expect, test } from 'vitest'
import { planWall } from '../../../src/tool/wall-time.js'

const limits = { wallMs: 60_000, wallMaxMs: 540_000 }
const over = 'timeout_seconds 900 is over the maximum: limited to 540 s'

describe('the wall time', () => {
  test.each([
    ['is the default where none is asked for', null, 585_000, 60_000, []],
    ['is what is asked for', 5, 585_000, 5000, []],
    ['may be the maximum', 540, 585_000, 540_000, []],
    ['is clamped, and said so', 900, 585_000, 540_000, [over]],
    [
      'is shortened to what is left, and said so',
      null,
      42_000.7,
      42_000,
      ["time limit shortened from 60 s to 42 s: the call's deadline is near"],
    ],
    [
      'is clamped and shortened, and said so twice',
      900,
      30_000,
      30_000,
      [over, "time limit shortened from 540 s to 30 s: the call's deadline is near"],
    ],
    ['is not shortened where it fits', 5, 5000, 5000, []],
    ['may be one second', null, 1000, 1000, ["time limit shortened from 60 s to 1 s: the call's deadline is near"]],
    ['is none where less than a second is left', 5, 999, null, []],
    ['is none after the deadline', null, -5000, null, []],
  ])('%s', (_what, timeoutSeconds, remainingMs, wallMs, notes) => {
    expect(planWall(timeoutSeconds, remainingMs, limits)).toEqual({ wallMs, notes })
  })
})
