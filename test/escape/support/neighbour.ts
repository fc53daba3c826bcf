import { type ChildProcess, spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { z } from 'zod'
import { readablePython } from '../../sandbox/support/pythons.js'

const Facts = z.object({
  pid: z.number(),
  tcp: z.number(),
  udp: z.number(),
  shm_key: z.number(),
  address: z.number(),
  fifo_fd: z.number(),
})

/** A process of the worker's user with doors of every kind. See neighbour.py. */
export interface Neighbour {
  readonly facts: z.infer<typeof Facts>
  /** What of it was reached, in order. */
  readonly reached: readonly string[]
  close(): Promise<void>
}

export async function startNeighbour(folder: string, mark: string): Promise<Neighbour> {
  const script = readFileSync(new URL('neighbour.py', import.meta.url), 'utf8')
  const child = spawn(readablePython(), ['-I', '-c', script, folder, mark], { stdio: ['pipe', 'pipe', 'inherit'] })
  const lines = createInterface({ input: child.stdout })
  const reached: string[] = []
  const facts = await new Promise<z.infer<typeof Facts>>((resolve, reject) => {
    child.once('error', reject)
    child.once('exit', code => reject(new Error(`the neighbour ended with code ${code}`)))
    lines.once('line', line => {
      resolve(Facts.parse(JSON.parse(line)))
      lines.on('line', more => reached.push(more))
    })
  })
  return { facts, reached, close: () => end(child) }
}

function end(child: ChildProcess): Promise<void> {
  return new Promise(resolve => {
    if (child.exitCode !== null || child.signalCode !== null) {
      resolve()
      return
    }
    child.once('exit', () => resolve())
    child.stdin?.end()
  })
}
