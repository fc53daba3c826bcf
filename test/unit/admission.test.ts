import { describe, expect, it } from 'vitest'
import { Admission, QueueFull } from '../../src/admission.js'

interface Task {
  readonly name: string
  finish(): void
  fail(error: Error): void
}

/** An admission and the tasks that run, in the order of their start. */
function setup(slots: number, queueMax = 1_000) {
  const counts: [number, number][] = []
  const admission = new Admission({ slots, queueMax, onChange: (running, waiting) => counts.push([running, waiting]) })
  const started: Task[] = []
  const submit = (group: string, name = group, signal = new AbortController().signal) =>
    admission.run(
      group,
      signal,
      () => new Promise<string>((resolve, reject) => started.push({ name, finish: () => resolve(name), fail: reject })),
    )
  const names = () => started.map(task => task.name)
  const finish = async (index: number) => {
    started[index]?.finish()
    await settle()
  }
  return { admission, submit, started, names, finish, counts }
}

/** Lets everything run that waits for nothing. */
function settle(): Promise<void> {
  return new Promise(resolve => setImmediate(resolve))
}

describe('Admission', () => {
  it('runs no more at once than there are slots, the next when one has ended', async () => {
    const { admission, submit, names, finish } = setup(2)
    const first = submit('a', 'a1')
    void submit('a', 'a2')
    void submit('a', 'a3')
    await settle()
    expect(names()).toEqual(['a1', 'a2'])
    expect([admission.running, admission.waiting]).toEqual([2, 1])
    await finish(0)
    expect(await first).toBe('a1')
    expect(names()).toEqual(['a1', 'a2', 'a3'])
    expect([admission.running, admission.waiting]).toEqual([2, 0])
  })

  it('serves the groups that wait in turns', async () => {
    const { submit, names, finish } = setup(1)
    for (const name of ['a1', 'a2', 'a3', 'b1', 'b2', 'c1']) void submit(name.slice(0, 1), name)
    await settle()
    for (let n = 0; n < 6; n++) await finish(n)
    expect(names()).toEqual(['a1', 'b1', 'c1', 'a2', 'b2', 'a3'])
  })

  it('gives one group at most half of the slots while others wait, and all of them when none does', async () => {
    const { submit, names, finish } = setup(4)
    for (let n = 0; n < 10; n++) void submit('flood')
    await settle()
    expect(names()).toEqual(['flood', 'flood', 'flood', 'flood'])
    for (let n = 0; n < 4; n++) void submit('other')
    await finish(0)
    await finish(1)
    await finish(2)
    expect(names().slice(4)).toEqual(['other', 'other', 'flood'])
  })

  it('leaves no slot free while calls wait, even if every group has its share', async () => {
    const { admission, submit } = setup(3)
    for (let n = 0; n < 4; n++) {
      void submit('a')
      void submit('b')
    }
    await settle()
    expect(admission.running).toBe(3)
  })

  it('refuses what is more than the queue takes, and takes again later', async () => {
    const { submit, finish, names } = setup(1, 1)
    void submit('a', 'a1')
    void submit('a', 'a2')
    await expect(submit('a', 'a3')).rejects.toBeInstanceOf(QueueFull)
    await settle()
    await finish(0)
    void submit('a', 'a4')
    await finish(1)
    expect(names()).toEqual(['a1', 'a2', 'a4'])
  })

  it('with a queue of 0 runs what has a slot and refuses the rest', async () => {
    const { submit, names } = setup(1, 0)
    void submit('a', 'a1')
    await expect(submit('a', 'a2')).rejects.toBeInstanceOf(QueueFull)
    await settle()
    expect(names()).toEqual(['a1'])
  })

  it('lets a waiting call leave with the reason of its signal, and its place goes to the next', async () => {
    const { admission, submit, names, finish } = setup(1)
    void submit('a', 'a1')
    const leaving = new AbortController()
    const left = submit('a', 'a2', leaving.signal)
    void submit('a', 'a3')
    leaving.abort('no longer wanted')
    await expect(left).rejects.toBe('no longer wanted')
    expect(admission.waiting).toBe(1)
    await finish(0)
    expect(names()).toEqual(['a1', 'a3'])
  })

  it('does not queue a call whose signal has aborted', async () => {
    const { admission, submit } = setup(1)
    await expect(submit('a', 'a1', AbortSignal.abort('gone'))).rejects.toBe('gone')
    expect([admission.running, admission.waiting]).toEqual([0, 0])
  })

  it('frees the slot of a task that fails', async () => {
    const { submit, started, names } = setup(1)
    const failing = submit('a', 'a1')
    void submit('a', 'a2')
    await settle()
    started[0]?.fail(new Error('broken'))
    await expect(failing).rejects.toThrow('broken')
    await settle()
    expect(names()).toEqual(['a1', 'a2'])
  })

  it('closed, refuses what waits and what comes, and lets what runs end', async () => {
    const { admission, submit, names, finish, counts } = setup(1)
    const running = submit('a', 'a1')
    const waiting = submit('b', 'b1')
    await settle()
    admission.close(new Error('stopping'))
    await expect(waiting).rejects.toThrow('stopping')
    await expect(submit('c', 'c1')).rejects.toThrow('stopping')
    expect([admission.running, admission.waiting]).toEqual([1, 0])
    await finish(0)
    expect(await running).toBe('a1')
    expect(names()).toEqual(['a1'])
    expect(counts.at(-1)).toEqual([0, 0])
  })
})
