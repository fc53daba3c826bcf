import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { machinery, type Process, stillAlive } from './support/processes.js'
import { openRoom, type Ran, type Room } from './support/room.js'

const WAIT = 'import time\nprint("running", flush=True)\ntime.sleep(60)'

interface Running {
  readonly report: Promise<Ran>
  readonly guest: Process
  readonly warden: Process
}

/** CPU time of a process so far, in hundredths of a second. */
function cpuTicks(target: Process | undefined): number {
  const stat = readFileSync(`/proc/${target?.pid}/stat`, 'utf8')
  const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ')
  return Number(fields[11]) + Number(fields[12])
}

describe.each(['namespaces', 'landlock'] as const)('the machinery of the %s tier', tier => {
  let room: Room

  // With one slot one sandbox is parked, so that it is known which one a run takes.
  beforeEach(async () => {
    room = await openRoom({ tier, slots: 1 })
  })

  afterEach(async () => {
    expect(await room.close()).toEqual({ processes: [], files: [] })
  })

  /** Starts `code` and waits until it has printed something. `others` run already. */
  async function start(code: string, others: readonly Running[] = []): Promise<Running> {
    const taken = new Set(others.flatMap(({ guest, warden }) => [guest.pid, warden.pid]))
    const parked = (kind: 'guests' | 'wardens') => machinery()[kind].filter(one => !taken.has(one.pid))
    await expect.poll(() => [parked('guests').length, parked('wardens').length], { timeout: 5_000 }).toEqual([1, 1])
    await sleep(150)
    const [guest, warden] = [parked('guests')[0], parked('wardens')[0]]
    if (guest === undefined || warden === undefined) throw new Error('the parked sandbox has gone')
    let running: () => void = () => {}
    const started = new Promise<void>(resolve => {
      running = resolve
    })
    const report = room.run(code, { onStdout: running })
    await started
    return { report, guest, warden }
  }

  const expectGone = (target: Process) => expect.poll(() => stillAlive([target]), { timeout: 3_000 }).toEqual([])

  it('interrupts what runs when the zygote is killed, and then serves again', async () => {
    const { report, guest } = await start(WAIT)
    kill(machinery().zygote)
    expect(await report).toMatchObject({ status: 'interrupted', started: true, stdout: { text: 'running\n' } })
    expect((await report).reason).toBeTruthy()
    await expectGone(guest)
    const before = performance.now()
    expect((await room.run('1 + 1')).value).toBe('2')
    expect(performance.now() - before).toBeLessThan(3_000)
    expect(room.health).toEqual([]) // one death is no reason to stop taking calls
  })

  if (tier === 'namespaces')
    it('lets no child that stops and continues the code busy the zygote', async () => {
      const { report } = await start(`import os, signal, time
parent = os.getpid()
print("running", flush=True)
if os.fork() == 0:
    end = time.monotonic() + 1
    while time.monotonic() < end:
        os.kill(parent, signal.SIGSTOP)
        os.kill(parent, signal.SIGCONT)
    os._exit(0)
os.wait()`)
      const zygote = machinery().zygote
      const before = cpuTicks(zygote)
      expect((await report).status).toBe('completed')
      expect(cpuTicks(zygote) - before).toBeLessThan(10) // hundredths of a second
    })

  it('interrupts what runs when the template is killed, and then serves again', async () => {
    const { report, guest } = await start(WAIT)
    kill(machinery().template[0])
    expect(await report).toMatchObject({ status: 'interrupted', started: true, stdout: { text: 'running\n' } })
    await expectGone(guest)
    const before = performance.now()
    expect((await room.run('1 + 1')).value).toBe('2')
    expect(performance.now() - before).toBeLessThan(3_000)
    expect(room.health).toEqual([]) // one death is no reason to stop taking calls
  })

  it('says that it is unhealthy, and stops spinning, when its zygote keeps dying', async () => {
    for (let death = 1; death <= 5; death++) {
      await expect.poll(() => machinery().zygote !== undefined, { timeout: 3_000 }).toBe(true)
      kill(machinery().zygote)
      await expect.poll(() => machinery().zygote === undefined || death < 5, { timeout: 3_000 }).toBe(true)
      await sleep(150)
    }
    await expect.poll(() => room.health.map(one => one.healthy), { timeout: 3_000 }).toEqual([false])
    expect(room.health[0]?.reason).toBeTruthy()
    await sleep(1_000)
    expect(machinery().zygote).toBeUndefined()
  })

  it('notices a zygote that no longer answers', async () => {
    const { report, guest } = await start(WAIT)
    process.kill(machinery().zygote?.pid ?? 0, 'SIGSTOP')
    expect(await report).toMatchObject({ status: 'interrupted', started: true })
    await expectGone(guest)
    expect((await room.run('1 + 1')).value).toBe('2')
  })

  it('interrupts one run, and ends its code, when its warden is killed; the others go on', async () => {
    const other = await start('import time\nprint("other")\ntime.sleep(1.5)\n"done"')
    const { report, guest, warden } = await start(WAIT, [other])
    kill(warden)
    expect(await report).toMatchObject({ status: 'interrupted', started: true, stdout: { text: 'running\n' } })
    expect((await other.report).value).toBe("'done'")
    await expectGone(guest)
    expect(room.health).toEqual([])
  })

  it('names the end of a run whose guest is killed from outside', async () => {
    const { report, guest } = await start(WAIT)
    kill(guest)
    expect(await report).toMatchObject({ status: 'crashed', signal: 'SIGKILL', stdout: { text: 'running\n' } })
  })

  it('replaces parked sandboxes that die', async () => {
    await sleep(150)
    for (const warden of machinery().wardens) kill(warden)
    await sleep(200)
    expect((await room.run('1 + 1')).value).toBe('2')
    expect((await room.run('2 + 2')).value).toBe('4')
  })

  it('answers every call when it is closed under them, and later ones at once', async () => {
    const reports = Array.from({ length: 12 }, () => room.run(WAIT))
    await sleep(300)
    await room.pool.close()
    const ends = await Promise.all([...reports, room.run('1')])
    expect(new Set(ends.map(report => report.status))).toEqual(new Set(['interrupted']))
    expect(ends.every(report => report.reason !== null && report.reason !== '')).toBe(true)
    expect(ends.at(-1)?.started).toBe(false)
  })
})

function kill(target: Process | undefined): void {
  if (target === undefined) throw new Error('there is no such process')
  process.kill(target.pid, 'SIGKILL')
}
