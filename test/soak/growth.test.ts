import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { describe, expect, it, onTestFinished } from 'vitest'
import { GROWTH_MOST_BYTES_A_CALL, growthPerCall, heldBytes, type Sample } from './support/growth.js'

const PROBE = fileURLToPath(new URL('./support/resources.mjs', import.meta.url))
const KIB = 1024
const MIB = 1024 * KIB

/** As a worker is looked at: eleven times in 150 calls. */
const samples = (bytes: (calls: number) => number): Sample[] =>
  Array.from({ length: 11 }, (_, n) => ({ calls: 150 + 15 * n, bytes: 40 * MIB + bytes(15 * n) }))

describe('the judgement of memory', () => {
  it.each([
    ['none', 0],
    ['what is meant to be kept', 8 * KIB],
    ['a leak', 50 * KIB],
  ])('finds what each call adds, through noise and what happens once: %s', (_, each) => {
    const noise = [0, 3, 1, 2, 0, 3, 2, 0, 1, 3, 0].map(part => part * 100 * KIB)
    const found = growthPerCall(samples(calls => calls * each + (noise[calls / 15] ?? 0) + (calls >= 75 ? MIB : 0)))
    expect(Math.abs(found - each)).toBeLessThan(12 * KIB)
    expect(found > GROWTH_MOST_BYTES_A_CALL).toBe(each === 50 * KIB)
  })

  it('does not judge by a handful', () => {
    expect(() => growthPerCall(samples(() => 0).slice(0, 4))).toThrow('too few')
  })

  it.each([
    ['a leak of 50 KiB in strings', 'kept.push("x".repeat(50 * 1024).split("").reverse().join(""))', true],
    ['a leak of 50 KiB in buffers', 'kept.push(Buffer.alloc(50 * 1024, 1))', true],
    ['as much in garbage', 'kept[0] = Buffer.alloc(50 * 1024, 1); kept[1] = new Array(6400).fill(1.5)', false],
  ])('sees %s a call in a program that is running', async (_, code, leaks) => {
    const program = `const kept = []; process.stdin.on('data', data => {
      for (const _ of data) { ${code} }
      process.stdout.write('.')
    })`
    const child = spawn(process.execPath, ['--import', PROBE, '-e', program], { stdio: 'pipe' })
    onTestFinished(() => void child.kill('SIGKILL'))
    let stderr = ''
    child.stderr.setEncoding('utf8').on('data', (text: string) => {
      stderr += text
    })
    const seen: Sample[] = []
    for (let n = 1; n <= 8; n++) {
      child.stdin.write('c'.repeat(10))
      await once(child.stdout, 'data')
      seen.push({ calls: 10 * n, bytes: await heldBytes({ pid: Number(child.pid), stderr: () => stderr }) })
    }
    expect(growthPerCall(seen) > GROWTH_MOST_BYTES_A_CALL, JSON.stringify(seen)).toBe(leaks)
  })
})
