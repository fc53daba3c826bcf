import { describe, expect, it } from 'vitest'
import { cancelAfter } from './support/room.js'
import { sharedRoom } from './support/shared-room.js'

const CALLS = 64

describe.each(['namespaces', 'landlock'] as const)('the %s tier with many calls at once', tier => {
  const room = sharedRoom({ tier, slots: CALLS })

  it('answers all of them, each with its own output, value and files', async () => {
    const reports = await Promise.all(
      Array.from({ length: CALLS }, (_, n) =>
        room().run(`print("call", ${n})\nopen("${n}.txt", "w").write("${n}")\n${n} * 2`),
      ),
    )
    expect(reports.map(({ status, stdout, value, files }) => [status, stdout.text, value, files[0]?.path])).toEqual(
      reports.map((_, n) => ['completed', `call ${n}\n`, String(n * 2), `${n}.txt`]),
    )
  })

  it('never gives the uid of a living sandbox to another', async () => {
    const reports = await Promise.all(
      Array.from({ length: 40 }, () =>
        room().run(
          'import os, time\nstarted = time.monotonic()\ntime.sleep(0.05)\nprint(os.getuid(), started, time.monotonic())',
        ),
      ),
    )
    const spans = reports.map(report => report.stdout.text.split(' ').map(Number) as [number, number, number])
    const overlapping = spans.filter(([uid, started, ended], n) =>
      spans.some(([other, begun, over], m) => m !== n && other === uid && begun < ended && started < over),
    )
    const ownUids = room().pool.facts.layers.some(layer => layer.name === 'uid' && layer.inForce)
    // In namespaces every sandbox sees itself as the same uid, whatever it is outside.
    if (ownUids && tier === 'landlock') expect(overlapping).toEqual([])
    expect(spans.flat().every(Number.isFinite)).toBe(true)
  })

  it('cancels one of many and leaves the others alone', async () => {
    const others = Array.from({ length: 10 }, (_, n) => room().run(`import time\ntime.sleep(0.3)\n${n}`))
    const code = 'import time\nprint("here", flush=True)\ntime.sleep(60)'
    const cancelled = await cancelAfter((...args) => room().run(...args), code, 'here', 'stop')
    expect(cancelled.status).toBe('cancelled')
    expect((await Promise.all(others)).map(report => report.value)).toEqual(others.map((_, n) => String(n)))
  })

  it('does not start what was cancelled while it waited for a sandbox', async () => {
    const calls = Array.from({ length: 20 }, () => new AbortController())
    const many = calls.map(({ signal }) => room().run('print("ran")', { signal }))
    for (const call of calls) call.abort('all stopped')
    const reports = await Promise.all(many)
    expect(reports.every(report => report.status === 'cancelled' && report.reason === 'all stopped')).toBe(true)
    expect(reports.filter(report => report.started)).toEqual([])
    expect((await room().run('1')).value).toBe('1')
  })
})
