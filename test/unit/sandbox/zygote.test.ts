import { spawn } from 'node:child_process'
import type { Duplex } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, expect, it } from 'vitest'
import { Channel } from '../../../src/sandbox/channel.js'
import type { Template } from '../../../src/sandbox/template.js'
import { Zygote } from '../../../src/sandbox/zygote.js'
import { readablePython } from '../../sandbox/support/pythons.js'

/** Answers each question at once, or none at all. */
const OTHER_END = `
import json, socket, sys
end = socket.socket(fileno=3)
def say(value):
    data = json.dumps(value).encode()
    end.sendall(len(data).to_bytes(4, "little") + b"J" + data)
say({"event": "ready", "installed": {}, "missing": {}, "import_ms": 0})
while head := end.recv(5, socket.MSG_WAITALL):
    end.recv(int.from_bytes(head[:4], "little"), socket.MSG_WAITALL)
    if sys.argv[1] == "answers":
        say({"event": "pong", "rss_bytes": 0})
`

let close: () => void = () => {}
afterEach(() => close())

/** A zygote as the worker sees it; `asked` resolves when it is asked for the next time. */
async function start(how: 'answers' | 'is silent') {
  const child = spawn(readablePython(), ['-Ic', OTHER_END, how], { stdio: ['ignore', 'inherit', 'inherit', 'pipe'] })
  let onAsked: () => void = () => {}
  class Heard extends Channel {
    override sendJson(value: unknown): void {
      super.sendJson(value)
      onAsked()
    }
  }
  const channel = new Heard(child.stdio[3] as Duplex)
  const ends: string[] = []
  const commands: unknown[] = []
  const template = {
    listener: { expect: (attach: (made: Channel) => void) => attach(channel), forget: () => {} },
    onZygoteExit: new Map(),
    channel: { sendJson: (value: unknown) => commands.push(value) },
    lastWords: () => '',
  }
  const handlers = { onGuestExit: () => {}, onNotForked: () => {}, onEnd: (reason: string) => ends.push(reason) }
  const options = { preload: [], unfit: {}, nextId: () => 1, templateGone: new AbortController().signal, renew: false }
  const zygote = await Zygote.start(template as unknown as Template, options, handlers)
  close = () => {
    zygote.end('the test is over')
    child.kill('SIGKILL')
  }
  const asked = () =>
    new Promise<void>(resolve => {
      onAsked = resolve
    })
  return { ends, commands, asked }
}

function standStill(ms: number): void {
  const end = performance.now() + ms
  while (performance.now() < end);
}

it('a zygote that does not answer within a second is killed', async () => {
  const { ends, commands, asked } = await start('is silent')
  await asked()
  await expect.poll(() => ends, { timeout: 5_000 }).toEqual(['the zygote did not answer for 1 s'])
  expect(commands).toContainEqual({ op: 'kill_zygote', zygote: 1 })
})

it('one that answers is not, when the worker itself stands still, also where two questions fall together', async () => {
  const { ends, asked } = await start('answers')
  await asked()
  standStill(1_300) // after which the first question gets another second
  await sleep(5)
  standStill(1_060) // and is looked at when the second one has just been sent
  await sleep(50)
  expect(ends).toEqual([])
  await sleep(1_500)
  expect(ends).toEqual([])
})
