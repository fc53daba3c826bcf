import { Duplex } from 'node:stream'
import { describe, expect, it } from 'vitest'
import { Channel } from '../../../src/sandbox/channel.js'
import { FRAME, type Frame, FrameDecoder, packFrame, packJson } from '../../../src/sandbox/frames.js'
import type { GuestExit, RunEnd } from '../../../src/sandbox/messages.js'
import { type Patience, type RunOrder, Sandbox } from '../../../src/sandbox/sandbox.js'

const END: Omit<RunEnd, 'event'> & { event: 'end' } = {
  event: 'end',
  cause: null,
  figure: null,
  hint: null,
  run_ms: 5,
  cpu_seen_ms: 0,
  cpu_ms: 1,
  peak_bytes: 0,
  baseline_bytes: 0,
  peak_processes: 1,
  workspace_bytes: 0,
  workspace_files: 0,
  workspace_full: false,
  workspace_files_full: false,
  stdout_total: 0,
  stderr_total: 0,
  files: [],
  files_more: 0,
  files_partial: null,
  files_other: { links: 0, hard_links: 0, special: 0 },
  files_gone: [],
  files_unlisted: [],
}
const EXIT: GuestExit = { event: 'exit', sandbox: 1, code: 0, signal: null, cpu_ms: 1, max_rss_bytes: 1 }

/** The warden's end of a sandbox's channel: what it was sent, and a way to speak and to go. */
class Warden {
  readonly heard: Frame[] = []
  readonly stream: Duplex

  constructor() {
    const decoder = new FrameDecoder()
    this.stream = new Duplex({
      read: () => {},
      write: (chunk: Buffer, _encoding, done) => {
        this.heard.push(...decoder.feed(chunk))
        done()
      },
    })
  }

  say(...pieces: Buffer[]): void {
    this.stream.push(Buffer.concat(pieces))
  }

  go(): void {
    this.stream.push(null)
  }

  ops(): unknown[] {
    return this.heard
      .filter(frame => frame.type === FRAME.json)
      .map(frame => (JSON.parse(frame.payload.toString()) as { op: unknown }).op)
  }
}

function make(patience: Partial<Patience> = {}) {
  const warden = new Warden()
  const gone = { times: 0 }
  const hooks = { onFailed: () => {}, onGone: () => void gone.times++ }
  const sandbox = new Sandbox(1, 'lean', hooks, { exitGraceMs: 5_000, backstopMs: 15_000, goneMs: 30, ...patience })
  sandbox.attach(new Channel(warden.stream))
  return { warden, sandbox, gone }
}

const order = (rest: Partial<RunOrder> = {}): RunOrder => ({
  calls: null,
  code: Buffer.from('1'),
  wallMs: 20,
  cpuMs: 20,
  inputs: [],
  collect: null,
  onNotPlaced: () => {},
  onContent: () => {},
  onStarted: () => {},
  onStdout: () => {},
  onStderr: () => {},
  onShown: () => {},
  ...rest,
})

describe('Sandbox', () => {
  it('sends the limits and then the code, and gives what came back', async () => {
    const { warden, sandbox, gone } = make()
    warden.say(packJson({ event: 'parked' }))
    await sandbox.parked
    const out: string[] = []
    const result = sandbox.run(order({ onStdout: bytes => out.push(bytes.toString()) }))
    warden.say(packJson({ event: 'started' }), packFrame(FRAME.stdout, Buffer.from('text')))
    warden.say(
      packFrame(FRAME.stdoutTail, Buffer.from('tail')),
      packFrame(FRAME.value, Buffer.from('2')),
      packJson(END),
    )
    sandbox.guestExited(EXIT)
    expect(await result).toMatchObject({ kind: 'ended', value: '2', stdoutTail: Buffer.from('tail'), exit: EXIT })
    expect(out).toEqual(['text'])
    expect(warden.heard.map(frame => frame.type)).toEqual([FRAME.json, FRAME.code])
    warden.go()
    await sandbox.gone
    expect(gone.times).toBe(1)
  })

  it.each([
    ['the guest is waited for before the warden speaks', true],
    ['the warden speaks before the guest is waited for', false],
  ])('ends when %s', async (_, exitFirst) => {
    const { warden, sandbox } = make()
    const result = sandbox.run(order())
    if (exitFirst) sandbox.guestExited(EXIT)
    warden.say(packJson(END))
    if (!exitFirst) setTimeout(() => sandbox.guestExited(EXIT), 20)
    expect((await result).kind).toBe('ended')
  })

  it('is broken when the warden dies without a word', async () => {
    const { warden, sandbox, gone } = make()
    const result = sandbox.run(order())
    warden.go()
    expect(await result).toMatchObject({ kind: 'broken', reason: 'the supervisor of the sandbox died' })
    await sandbox.gone
    expect(gone.times).toBe(1)
  })

  it('is broken when the warden says what is no frame', async () => {
    const { warden, sandbox } = make()
    const result = sandbox.run(order())
    warden.say(Buffer.alloc(16, 0xff))
    expect((await result).kind).toBe('broken')
  })

  it('passes over events that it does not know and frames of unknown types', async () => {
    const { warden, sandbox } = make()
    const result = sandbox.run(order())
    warden.say(packJson({ event: 'sings' }), packFrame('?', Buffer.from('x')), packFrame(FRAME.json, Buffer.from('{')))
    warden.say(packJson({ ...END, run_ms: 'long' }), packJson(END))
    sandbox.guestExited(EXIT)
    expect(await result).toMatchObject({ kind: 'ended', end: { run_ms: 5 } })
  })

  it('is given up when the warden is silent past the wall time', async () => {
    const { sandbox, gone } = make({ exitGraceMs: 1_000, backstopMs: 30 })
    const result = await sandbox.run(order())
    expect(result).toMatchObject({ kind: 'broken', reason: 'the supervisor of the sandbox did not answer' })
    await sandbox.gone
    expect(gone.times).toBe(1)
  })

  it('is given up when nobody says how the guest ended', async () => {
    const { warden, sandbox } = make({ exitGraceMs: 30, backstopMs: 10_000 })
    const result = sandbox.run(order())
    warden.say(packJson(END))
    expect(await result).toMatchObject({ kind: 'broken', reason: 'nobody could say how the code ended' })
  })

  it('rejects those who wait for it to be parked with what went wrong', async () => {
    const { warden, sandbox } = make()
    warden.say(packJson({ event: 'failed', message: 'no room' }))
    await expect(sandbox.parked).rejects.toThrow('the sandbox could not be made: no room')
  })

  it('says so when it was gone before it got the code', async () => {
    const { warden, sandbox } = make()
    warden.go()
    await sandbox.gone
    expect(await sandbox.run(order())).toMatchObject({ kind: 'broken', handedOver: false })
  })

  it('passes a cancel on', async () => {
    const { warden, sandbox } = make()
    void sandbox.run(order())
    sandbox.cancel()
    expect(warden.ops()).toEqual(['run', 'cancel'])
    sandbox.fail('over')
  })

  it('gives the code away only when the files of earlier calls are in place, and then says so', async () => {
    const { warden, sandbox } = make()
    const result = sandbox.run(order({ inputs: [{ path: 'a', read: async () => null }] }))
    const types = () => warden.heard.map(frame => frame.type)
    await expect.poll(types).toEqual([FRAME.json, FRAME.inputsEnd])
    warden.say(packJson({ event: 'placed', problems: [] }))
    await expect.poll(types).toEqual([FRAME.json, FRAME.inputsEnd, FRAME.code])
    sandbox.cancel()
    expect(warden.ops()).toEqual(['run', 'cancel'])
    warden.go()
    expect(await result).toMatchObject({ kind: 'broken', handedOver: true })
  })

  it.each<[string, (sandbox: Sandbox, warden: Warden) => void]>([
    ['the call is cancelled', sandbox => sandbox.cancel()],
    ['the warden fails', (_, warden) => warden.say(packJson({ event: 'failed', message: 'in time' }))],
  ])('keeps the code when %s while files are put in place', async (_, happens) => {
    const { warden, sandbox } = make()
    let read: (content: Buffer) => void = () => {}
    const content = new Promise<Buffer>(resolve => {
      read = resolve
    })
    const result = sandbox.run(order({ inputs: [{ path: 'a', read: () => content }] }))
    happens(sandbox, warden)
    expect(await result).toMatchObject({ kind: 'broken', handedOver: false })
    read(Buffer.from('late'))
    warden.say(packJson({ event: 'placed', problems: [] }))
    await new Promise(resolve => setTimeout(resolve, 20))
    expect(warden.heard.map(frame => frame.type)).not.toContain(FRAME.code)
  })
})
