import { spawn } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, describe, expect, it } from 'vitest'
import { catches, descendants, survivors } from './support/processes.js'
import { endPrograms, leftFolders, MAIN, type Program, PYTHON, startProgram } from './support/worker-process.js'

afterEach(endPrograms)

/** Runs a script given on standard input to its end. */
async function exec(code: string, args: readonly string[] = [], env: Record<string, string> = {}): Promise<Program> {
  const program = await startProgram(['exec', ...args, '-'], env, 'pipe')
  program.child.stdin?.on('error', () => {}) // it may close before it has read all
  program.child.stdin?.end(code)
  await program.exited
  return program
}

async function codeOf(program: Program): Promise<number | null> {
  return (await program.exited).code
}

async function until(holds: () => boolean): Promise<void> {
  for (let waitedMs = 0; !holds(); waitedMs += 20) {
    if (waitedMs > 15_000) throw new Error('what was waited for did not happen')
    await sleep(20)
  }
}

describe('exec', () => {
  it('has stdout of the code and nothing else on stdout, all else on stderr, and its exit code', async () => {
    const program = await exec('import sys\nprint("out")\nprint("err", file=sys.stderr)\n6 * 7')
    expect(program.stdout()).toBe('out\n')
    expect(program.stderr()).toMatch(
      /^42\nerr\n\[completed in [\d.]+ m?s, CPU [\d.]+ m?s, (memory [1-9][\d.]* \w+, )?\$[\d.]+\]\n$/,
    )
    expect(await codeOf(program)).toBe(0)
    const failing = await exec('print("before"); raise SystemExit(3)')
    expect(failing.stdout()).toBe('before\n')
    expect(await codeOf(failing)).toBe(3)
    expect(await leftFolders(failing)).toEqual([])
  })

  it('shows each thing once, even if what the code prints looks like a line of ours', async () => {
    const code =
      'import sys\nprint("[printed]")\nprint("[on stderr]", file=sys.stderr)\nopen("a.txt", "w").write("x")\n[1, 2, 3]'
    const program = await exec(code, ['--quiet'])
    expect(program.stdout()).toBe('[printed]\n')
    expect(program.stderr()).toBe('[1, 2, 3]\n[on stderr]\n[files: a.txt (1 byte)]\n')
  })

  it('runs a file, and with --json prints the outcome and nothing else', async () => {
    const folder = (await startProgram(['--version'])).tmp
    const file = path.join(folder, 'script.py')
    await writeFile(file, 'print("from a file")')
    const program = await startProgram(['exec', '--json', file])
    expect(await codeOf(program)).toBe(0)
    const outcome = JSON.parse(program.stdout())
    expect(outcome).toMatchObject({ status: 'completed', exit_code: 0, content: 'from a file\n', tool_calls: [] })
    expect(program.stdout().split('\n')).toHaveLength(2)
  })

  it('has exit codes for ends that have none of their own', { timeout: 120_000 }, async () => {
    const timedOut = await exec('while True: pass', ['--timeout', '1'])
    expect(await codeOf(timedOut)).toBe(124)
    expect(timedOut.stderr()).toContain('timed out after 1 s')
    expect(await codeOf(await exec('import os, signal; os.kill(os.getpid(), signal.SIGSEGV)'))).toBe(139)
    const memory = await exec('b = bytearray(400 << 20)\nfor i in range(0, len(b), 4096): b[i] = 1', [], {
      SANDBOX_MEMORY_MB: '64',
    })
    expect(await codeOf(memory)).toBe(137)
    const empty = await exec('  \n')
    expect(await codeOf(empty)).toBe(125)
    expect(empty.stderr()).toContain('empty')
  })

  it('says which question nobody answers here, and runs nothing, where the code names a tool that asks', async () => {
    const program = await exec('tools.files.write_file(path="a", content="b")', [], { TOOLS_ASK: 'files.*' })
    expect(await codeOf(program)).toBe(125)
    expect(program.stderr()).toMatch(
      /^\[not run: a person has to confirm this code first, and nobody can be asked here: .*letting it call files\.write_file.*\?\]$/m,
    )
  })

  it('says that no run lasts for longer than SANDBOX_WALL_MAX_MS, whatever --timeout asks for', async () => {
    const long = await exec('print(1)', ['--json', '--timeout', '3600'])
    expect(await codeOf(long)).toBe(0)
    expect(long.stderr()).toBe('--timeout 3600: 540 s it is, see SANDBOX_WALL_MAX_MS\n')
    expect((await exec('print(1)', ['--quiet', '--timeout', '540'])).stderr()).toBe('')
  })

  it('Ctrl-C ends the code, keeps its output, leaves nothing behind and exits 130', async () => {
    const program = await startProgram(['exec', '-'], {}, 'pipe')
    program.child.stdin?.end('import time\nprint("begun")\ntime.sleep(60)')
    await until(() => program.stdout() !== '')
    const below = descendants(program.pid)
    const from = performance.now()
    program.child.kill('SIGINT')
    expect(await codeOf(program)).toBe(130)
    expect(performance.now() - from).toBeLessThan(4_000)
    expect(program.stdout()).toContain('begun\n')
    expect(program.stderr()).toContain('cancelled by SIGINT')
    expect(await survivors(below, 2_000)).toEqual([])
    expect(await leftFolders(program)).toEqual([])
  })

  it('Ctrl-C while the script is still being typed ends it too', async () => {
    const program = await startProgram(['exec', '-'], {}, 'pipe')
    program.child.stdin?.write('print(1)\n')
    // The last handler that is installed; node itself handles SIGINT for a moment before any script runs.
    await until(() => catches(program.pid, 'SIGHUP'))
    program.child.kill('SIGINT')
    expect(await codeOf(program)).toBe(130)
    expect(program.stderr()).toBe('')
  })

  it('a reader that closes early, as in "| head -1", ends it quietly and soon', async () => {
    const endless = 'import itertools\nfor n in itertools.count(): print("line", n)'
    const shell = spawn('bash', ['--norc', '-c', 'node "$0" exec - | head -1; echo "exit $PIPESTATUS"', MAIN], {
      env: { ...process.env, SANDBOX_PYTHON: PYTHON, SANDBOX_PRELOAD: 'none' },
      stdio: ['pipe', 'pipe', 'pipe'],
    })
    let output = ''
    for (const stream of [shell.stdout, shell.stderr]) stream.on('data', chunk => (output += String(chunk)))
    const from = performance.now()
    shell.stdin.end(endless)
    await new Promise(resolve => shell.once('close', resolve))
    expect(output).toMatch(/^line 0\nexit 141\n$/)
    expect(performance.now() - from).toBeLessThan(15_000)
  })

  it('a huge script on standard input is refused without being kept', async () => {
    const program = await startProgram(['exec', '--json', '-'], {}, 'pipe')
    program.child.stdin?.on('error', () => {})
    const piece = Buffer.alloc(1 << 20, '# padding\n')
    for (let n = 0; n < 8; n++) program.child.stdin?.write(piece)
    program.child.stdin?.end()
    expect(await codeOf(program)).toBe(125)
    const outcome = JSON.parse(program.stdout())
    expect(outcome.status).toBe('rejected')
    expect(outcome.content).toContain('larger than 1048576 bytes')
  })

  it('says at once what is wrong with a file', async () => {
    const from = performance.now()
    const missing = await startProgram(['exec', '/no/such/file.py'])
    expect(await codeOf(missing)).toBe(66)
    expect(missing.stderr()).toMatch(/^there is no file \S*no\/such\/file\.py\n$/)
    expect(performance.now() - from).toBeLessThan(5_000)
    const folder = await startProgram(['exec', '/'])
    expect(await codeOf(folder)).toBe(66)
    expect(folder.stderr()).toMatch(/^\S+ is a folder, not a file\n$/)
  })
})
