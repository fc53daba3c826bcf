import { spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { MAIN, PYTHON } from './support/worker-process.js'

let folder = ''

beforeEach(() => {
  folder = mkdtempSync(path.join(tmpdir(), 'exec-shell-'))
})

afterEach(() => rmSync(folder, { recursive: true }))

const ENV = { ...process.env, SANDBOX_PYTHON: PYTHON, SANDBOX_PRELOAD: 'none', NO_COLOR: '1' }

function shell(command: string, input = '') {
  const [name, ...args] = ['bash', '--norc', '-c', command]
  return spawnSync(name as string, args, {
    cwd: folder,
    env: { ...ENV, MAIN },
    input,
    encoding: 'utf8',
    timeout: 60_000,
  })
}

/** A PNG of one pixel. */
const PIXEL = 'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=='
const MAKES_FILES = `import base64, os
open("pixel.png", "wb").write(base64.b64decode("${PIXEL}"))
os.mkdir("data")
open("data/squares.csv", "w").write("1,1\\n2,4\\n")
`

describe('exec in a shell', () => {
  it('pipes all of a long output, more than a result keeps', () => {
    const run = shell('node "$MAIN" exec --quiet - | sha256sum', 'for n in range(200_000): print("line", n)')
    const same = shell('seq -f "line %.0f" 0 199999 | sha256sum')
    expect(run.stdout).toBe(same.stdout)
    expect(run.stderr).toBe('')
  })

  it('has of a redrawn line the last state, as the result has it', () => {
    const code = 'for n in range(101): print(f"{n}%", end="\\r")\nprint()\nprint("ended")'
    const run = shell('node "$MAIN" exec - > out; cat out', code)
    expect(run.stdout).toBe('100%\nended\n')
  })

  it('saves what the code made, over nothing that is there', () => {
    writeFileSync(path.join(folder, 'pixel.png'), 'mine')
    const run = shell('umask 077; node "$MAIN" exec --output . - && ls -l data/squares.csv', MAKES_FILES)
    expect(run.status).toBe(0)
    expect(run.stdout).toMatch(/^-rw------- .* data\/squares\.csv\n$/)
    expect(run.stderr).toContain('[saved pixel-2.png (70 bytes)]\n')
    expect(readFileSync(path.join(folder, 'pixel.png'), 'utf8')).toBe('mine')
    expect(readFileSync(path.join(folder, 'pixel-2.png')).toString('base64')).toBe(PIXEL)
    expect(readFileSync(path.join(folder, 'data/squares.csv'), 'utf8')).toBe('1,1\n2,4\n')
  })

  it('saves images alone where no folder is named', () => {
    const run = shell('node "$MAIN" exec -', MAKES_FILES)
    expect(run.stderr).toContain('[saved pixel.png (70 bytes)]\n')
    expect(run.stderr).toContain('[not saved: data/squares.csv; --output DIR saves files, up to 128 MiB]\n')
    expect(run.stderr).not.toContain('shown below')
    expect(readdirSync(folder)).toEqual(['pixel.png'])
  })

  it('has what the code displays as text on stderr', () => {
    const run = shell('node "$MAIN" exec --quiet -', 'print("printed")\ndisplay("displayed")\n6 * 7')
    expect(run.stdout).toBe('printed\n')
    expect(run.stderr).toBe('displayed\n42\n')
  })

  it('runs nothing where nothing can be written to the folder of --output', () => {
    writeFileSync(path.join(folder, 'taken'), 'mine')
    const run = shell('node "$MAIN" exec --output taken -', 'print("ran")')
    expect(run.stdout).toBe('')
    expect(run.stderr).toBe('--output taken: there is a file where a folder must be\n')
    expect(run.status).toBe(74)
  })

  it('says also with --quiet which file it could not save, saves the others, and ends with 74', () => {
    writeFileSync(path.join(folder, 'data'), 'mine')
    const run = shell('node "$MAIN" exec --quiet --output . -', MAKES_FILES)
    expect(run.stderr).toContain('[not saved: data/squares.csv: there is a file where a folder must be]\n')
    expect(run.status).toBe(74)
    expect(readdirSync(folder).sort()).toEqual(['data', 'pixel.png'])
  })

  it('saves large files, and says also with --quiet what it does not save, and ends with 74', () => {
    const code = `for n in range(3): open(f"{n}.bin", "wb").truncate(20 << 20)`
    const whole = shell('node "$MAIN" exec --quiet --output . - && stat -c "%n %s" *.bin', code)
    expect([whole.status, whole.stdout, whole.stderr]).toEqual([
      0,
      '0.bin 20971520\n1.bin 20971520\n2.bin 20971520\n',
      expect.not.stringContaining('not saved'),
    ])
    const most = 'for n in range(3): open(f"{n}.bin", "wb").truncate(70 << 20)\nopen(".env", "w").close()'
    const part = shell('node "$MAIN" exec --quiet --output part -', most)
    expect(part.status).toBe(74)
    expect(part.stderr).toContain('[not saved: 1.bin: more than 128 MiB in one call]\n')
    expect(part.stderr).toContain('[not saved: .env: no name for a file outside')
    expect(readdirSync(path.join(folder, 'part'))).toEqual(['0.bin'])
  })
})

describe('the examples of exec in the README', () => {
  it('do what is said of them', () => {
    const readme = readFileSync(new URL('../../README.md', import.meta.url), 'utf8')
    const commands = readme
      .split('\n')
      .filter(line => /^echo .*dist\/main\.js exec .*-( \||$)/.test(line) && !/tools\./.test(line))
    expect(commands).toHaveLength(3)
    const run = shell(commands.join('\n').replaceAll('node dist/main.js', 'node "$MAIN"'))
    expect(run.stdout).toBe('2 4\nexit code 3\n')
    expect(run.status).toBe(0)
    expect(readFileSync(path.join(folder, 'results/squares.csv'), 'utf8')).toBe('1,1\n2,4\n')
  })
})

/** What a terminal gets of a command in it. */
function inTerminal(command: string): string {
  return spawnSync('script', ['-qec', command, '/dev/null'], {
    cwd: folder,
    env: { ...ENV, MAIN, TERM: 'xterm' },
    encoding: 'utf8',
    timeout: 60_000,
  }).stdout
}

describe('exec in a terminal', () => {
  it('lets no text of the code control it', () => {
    writeFileSync(path.join(folder, 'a.py'), 'print("\\x1b]0;title\\x07\\x1b[31mred")')
    const shown = inTerminal('node "$MAIN" exec --quiet a.py')
    expect(shown).toBe('\u241b]0;title\u2407\u241b[31mred\r\n')
  })

  it('says that a run goes on, and takes that away again', { timeout: 120_000 }, () => {
    writeFileSync(path.join(folder, 'a.py'), 'import time\ntime.sleep(4)\nprint("ended")')
    const shown = inTerminal('node "$MAIN" exec a.py')
    const readable = shown.replaceAll('\r\u001b[K', '<erased>')
    expect(readable).toMatch(/<erased>running, \d+ s<erased>/)
    expect(readable).toMatch(/running, \d+ s<erased>ended\r\n\[completed in [^\n]*\]\r\n$/)
    expect(inTerminal('node "$MAIN" exec a.py 2> errors')).toBe('ended\r\n')
    expect(readFileSync(path.join(folder, 'errors'), 'utf8')).toMatch(/^\[completed in [^\n]*\]\n$/)
  })
})
