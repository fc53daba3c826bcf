import { once } from 'node:events'
import { chmodSync, mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import path from 'node:path'
import { afterEach, describe, expect, it, onTestFinished } from 'vitest'
import { endPrograms, leftFolders, PYTHON, startProgram } from './support/worker-process.js'

afterEach(endPrograms)

async function run(args: readonly string[], env: Record<string, string> = {}) {
  const program = await startProgram(args, env)
  const { code } = await program.exited
  return { code, stdout: program.stdout(), stderr: program.stderr(), program }
}

describe('the command line', () => {
  it('--help names every command, --version is a version', async () => {
    const help = await run(['--help'])
    expect(help.code).toBe(0)
    for (const command of ['start', 'dev', 'demo', 'exec', 'doctor']) expect(help.stdout).toContain(`  ${command} `)
    const version = await run(['--version'])
    expect(version).toMatchObject({ code: 0, stderr: '' })
    expect(version.stdout).toMatch(/^\d+\.\d+\.\d+\n$/)
  })

  it('wrong use is explained in one line and exits 64', async () => {
    const { code, stdout, stderr } = await run(['no-such-command'])
    expect(code).toBe(64)
    expect(stdout).toBe('')
    expect(stderr).toBe('there is no command "no-such-command"; try --help\n')
  })

  it('a wrong configuration exits 78 with a report that names every variable and no secret', async () => {
    const { code, stdout, stderr } = await run(['start'], {
      FLEXUS_API_KEY: 'fx-secret-that-must-not-show',
      FLEXUS_WS_TICKET: 'ticket-that-must-not-show',
      MAX_CONCURRENT_CALLS: 'many',
      SANDBOX_MEMORY_MB: '-3',
      LOG_LEVEL: 'loud',
      CALL_DEADLINE_MS: '585',
    })
    expect(code).toBe(78)
    const variables = ['FLEXUS_API_BASEURL', 'FLEXUS_API_KEY', 'FLEXUS_WS_TICKET', 'MAX_CONCURRENT_CALLS']
    for (const name of [...variables, 'SANDBOX_MEMORY_MB', 'LOG_LEVEL', 'CALL_DEADLINE_MS'])
      expect(stderr).toContain(`  ${name}: `)
    expect(stdout + stderr).not.toContain('must-not-show')
    expect(stderr).not.toContain('    at ')
  })

  it('what is wrong with tools is in the same report, with what it got, and no secret', async () => {
    const { code, stdout, stderr } = await run(['exec', '-'], {
      LOG_LEVEL: 'loud',
      TOOLS_WEB_PORTS: '80,http',
      TOOLS_WEB_SEARCH_URL: 'searx?key=must-not-show',
      TOOLS_CONFIG: '{"mcpServers": {"x": {"comand": "npx", "env": {"KEY": "must-not-show"}}}}',
    })
    expect(code).toBe(78)
    expect(stderr).toContain('The configuration cannot be used (4 errors):')
    expect(stderr).toContain('  LOG_LEVEL: got "loud"; ')
    expect(stderr).toContain('  TOOLS_WEB_PORTS: got "80,http"; give ports')
    expect(stderr).toContain('  TOOLS_WEB_SEARCH_URL: got "searx?…"; give the http or https URL')
    expect(stderr).toContain('  TOOLS_CONFIG: mcpServers.x.command: got nothing; give the program')
    expect(stderr).toContain('mcpServers.x.comand is not known here and has no effect; did you mean command?')
    expect(stdout + stderr).not.toContain('must-not-show')
  })

  it('a file of tool servers that is not there is named, with what else may be given', async () => {
    const { code, stderr } = await run(['doctor'], { TOOLS_CONFIG: '/no/such/tools.json' })
    expect(code).toBe(78)
    expect(stderr).toContain(
      '  TOOLS_CONFIG: "/no/such/tools.json" can not be read (there is no such file); give the path of a JSON file',
    )
  })

  it('start without any configuration says what is missing and exits 78', async () => {
    const { code, stderr } = await run([])
    expect(code).toBe(78)
    expect(stderr).toContain('FLEXUS_API_BASEURL: not set')
    expect(stderr).toContain('FLEXUS_API_KEY: not set')
  })

  it.each(['doctor', 'demo', 'dev'])('%s names an interpreter that does not exist, exit 69', async command => {
    const { code, stdout, stderr } = await run([command], { SANDBOX_PYTHON: '/no/such/python' })
    expect(code).toBe(69)
    expect(command === 'doctor' ? stdout : stderr).toBe(
      'SANDBOX_PYTHON: "/no/such/python" is not there: there is no /no (ENOENT); name a CPython of 3.10 or later\n',
    )
  })

  it.each([
    ['a path', 'python', (folder: string) => ({ SANDBOX_PYTHON: `${folder}/bin/python` })],
    [
      'a name on PATH',
      'name',
      (folder: string) => ({ SANDBOX_PYTHON: 'pythonx', PATH: `${folder}/bin:/usr/bin:/bin` }),
    ],
  ])('names the folder that keeps this user from the interpreter, given by %s', async (_, kind, env) => {
    const folder = mkdtempSync(path.join('/tmp', 'closed-'))
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
    mkdirSync(path.join(folder, 'bin'))
    chmodSync(folder, 0o600)
    const nobody = process.getuid?.() === 0 ? ['setpriv', '--reuid=54321', '--regid=54321', '--clear-groups'] : []
    const program = await startProgram(['doctor'], env(folder), 'ignore', nobody)
    expect((await program.exited).code).toBe(69)
    expect(program.stdout()).toMatch(
      kind === 'python'
        ? new RegExp(`"${folder}/bin/python" can not be reached: uid \\d+ may not enter ${folder}; name a CPython`)
        : new RegExp(`"pythonx" is not found on PATH \\(.*, of which uid \\d+ may not enter ${folder}/bin\\); name`),
    )
  })

  it('start that can not have a sandbox says so in its log as well as on stderr, exit 69', async () => {
    const { code, stdout, stderr } = await run(['start'], {
      SANDBOX_PYTHON: '/no/such/python',
      FLEXUS_API_BASEURL: 'http://127.0.0.1:9/',
      FLEXUS_API_KEY: 'fx-a-key',
    })
    expect(code).toBe(69)
    expect(stderr).toContain('"/no/such/python" is not there')
    const last: unknown = JSON.parse(stdout.trim().split('\n').at(-1) ?? '')
    expect(last).toMatchObject({ level: 'fatal', msg: 'worker can not start' })
    expect((last as { reason: string }).reason).toContain('"/no/such/python" is not there')
  })

  it.each([32, 64, 80, 100])('a limit of %d open files is named in words, with what would do, exit 71', async files => {
    const program = await startProgram(['exec', '-'], {}, 'ignore', ['prlimit', `--nofile=${files}:${files}`])
    expect((await program.exited).code).toBe(71)
    expect(program.stderr()).toMatch(/^too many open files \(.*\); give it 1024 at least/)
    expect(program.stderr().trim().split('\n')).toHaveLength(1)
  })

  it('dev on a port that is in use says so and exits 71', async () => {
    const holder = createServer().listen(0, '127.0.0.1')
    await once(holder, 'listening')
    const { port } = holder.address() as AddressInfo
    const { code, stderr } = await run(['dev', '--port', String(port)])
    holder.close()
    expect(code).toBe(71)
    expect(stderr).toBe(
      `dev cannot listen on port ${port} of 127.0.0.1: another program uses it; give another --port, or none\n`,
    )
  })

  it('doctor says which tier and layers are in force, with which interpreter, and what has no effect', async () => {
    const servers = '{"mcpServers": {"x": {"command": "x", "timeout": 5}}}'
    const { code, stdout, stderr, program } = await run(['doctor'], { TOOLS_CONFIG: servers })
    expect(code).toBe(0)
    expect(stdout).toContain('warning: TOOLS_CONFIG: mcpServers.x.timeout is not known here')
    expect(stdout).toMatch(/tier (namespaces|landlock): in use, escape self-test passed/)
    expect(stdout).toMatch(/ [✓✗] seccomp/)
    expect(stdout).toMatch(/interpreter: \S+, Python 3\.\d+/)
    if (PYTHON.startsWith('/')) expect(stdout).toContain(PYTHON)
    expect(stdout).toMatch(/slots: \d+ calls at once/)
    expect(stdout).toMatch(/memory: held by a (watch .* not by a cgroup|cgroup for each sandbox)/)
    expect(stderr).toBe('')
    expect(await leftFolders(program)).toEqual([])
  })

  it('the demo shows three calls and exits 0; piped there is no colour in it', async () => {
    const { code, stdout, stderr, program } = await run(['demo'], { NO_COLOR: '1' })
    expect(stderr).toBe('')
    expect(code).toBe(0)
    expect(stdout).not.toContain('\u001b')
    expect(stdout).toMatch(/step 1 of 5[\s\S]*step 5 of 5/)
    expect(stdout).toContain("{'north': 165, 'south': 95, 'west': 200}")
    expect(stdout).toContain('ZeroDivisionError')
    expect(stdout).toContain('All 3 calls came back as they should.')
    expect(await leftFolders(program)).toEqual([])
  })
})
