import { afterEach, describe, expect, it } from 'vitest'
import { endPrograms, leftFolders, type Program, startProgram } from './support/worker-process.js'

afterEach(endPrograms)

async function until(holds: () => boolean, program: Program): Promise<void> {
  for (let waitedMs = 0; !holds(); waitedMs += 20) {
    if (waitedMs > 20_000) throw new Error(`it did not come about:\n${program.stdout()}${program.stderr()}`)
    await new Promise(resolve => setTimeout(resolve, 20))
  }
}

async function startDev(
  env: Record<string, string> = {},
): Promise<{ program: Program; call(code: string): Promise<Response> }> {
  const program = await startProgram(['dev'], env)
  const serving = () => /curl -N (\S+)dev\/call/.exec(program.stdout())?.[1]
  await until(() => serving() !== undefined && program.stdout().includes('registered'), program)
  return {
    program,
    call: code =>
      fetch(`${serving()}dev/call`, {
        method: 'POST',
        headers: { 'content-type': 'application/json' },
        body: JSON.stringify({ code }),
      }),
  }
}

describe('dev', () => {
  it.each(['SIGINT', 'SIGTERM'] as const)(
    '%s while a call waits for a person ends it soon, and its client is told',
    async signal => {
      const { program, call } = await startDev({ CONFIRM_BEFORE: 'always' })
      const response = await call('print(1)')
      await until(() => program.stdout().includes('waits for a person'), program)
      const from = performance.now()
      program.child.kill(signal)
      expect(await program.exited).toEqual({ code: 0, signal: null })
      expect(performance.now() - from).toBeLessThan(2_000)
      expect(await response.text()).toMatch(/--- the backend is closing\n$/)
      expect(await leftFolders(program)).toEqual([])
    },
  )

  it('Ctrl-C waits for a call that runs and says so; a second one ends it at once', async () => {
    const { program, call } = await startDev()
    const response = await call('import time\nprint("begun")\ntime.sleep(60)')
    await until(() => program.stdout().includes('│ begun'), program)
    program.child.kill('SIGINT')
    await until(
      () => program.stdout().includes('waiting up to 25 s for 1 running call; Ctrl-C again ends it now'),
      program,
    )
    const from = performance.now()
    program.child.kill('SIGINT')
    expect(await program.exited).toEqual({ code: 0, signal: null })
    expect(performance.now() - from).toBeLessThan(5_000)
    expect(await response.text()).toMatch(
      /^begun\n[\s\S]*\n\[interrupted: .* may have run in part\]\n--- interrupted in /,
    )
    expect(program.stderr()).toBe('')
    expect(await leftFolders(program)).toEqual([])
  })
})
