import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { describe, expect, onTestFinished, test } from 'vitest'
import { z } from 'zod'
import { loadConfig } from '../../src/config.js'
import { startHealthServer } from '../../src/telemetry/health-server.js'

const read = (path: string) => readFileSync(new URL(`../../${path}`, import.meta.url), 'utf8')

const Rule = z.object({
  names: z.array(z.string()),
  action: z.string(),
  args: z.array(z.unknown()).nullish(),
  includes: z.unknown().optional(),
  excludes: z.unknown().optional(),
  comment: z.string().optional(),
})
const Profile = z.object({ defaultAction: z.string(), syscalls: z.array(Rule) })

describe('docker/seccomp.json', () => {
  const profile = Profile.parse(JSON.parse(read('docker/seccomp.json')))
  const added = profile.syscalls.filter(rule => rule.comment?.startsWith('python-execute-worker'))

  test('adds exactly the calls that make sandboxes of the namespaces tier', () => {
    expect(added.map(rule => rule.names)).toEqual([
      ['unshare', 'clone', 'setns', 'mount', 'mount_setattr', 'pivot_root', 'umount2', 'sethostname'],
    ])
  })

  test('adds nothing that the engine does not allow to a process with CAP_SYS_ADMIN', () => {
    const privileged = profile.syscalls
      .filter(rule => (rule.includes as { caps?: string[] } | undefined)?.caps?.includes('CAP_SYS_ADMIN'))
      .flatMap(rule => rule.names)
    // pivot_root is in no rule of the engine's: its own container runtime calls it before the filter is set.
    expect(added.flatMap(rule => rule.names).filter(name => !privileged.includes(name))).toEqual(['pivot_root'])
  })

  test('adds what the generator says', async () => {
    const generator = await import(new URL('../../docker/make-seccomp.mjs', import.meta.url).href)
    const bare = JSON.parse(read('docker/seccomp.json')) as { syscalls: unknown[] }
    const whole = structuredClone(bare)
    bare.syscalls = bare.syscalls.slice(0, -1)
    expect(generator.withNamespaces(bare)).toEqual(whole)
  })

  test('refuses by default', () => {
    expect(profile.defaultAction).toBe('SCMP_ACT_ERRNO')
  })

  test('leaves dangerous calls to processes with a capability for them', () => {
    const free = profile.syscalls
      .filter(rule => rule.action === 'SCMP_ACT_ALLOW' && !rule.args?.length && rule.includes == null)
      .flatMap(rule => rule.names)
    const dangerous = [
      'bpf',
      'perf_event_open',
      'io_uring_setup',
      'open_by_handle_at',
      'kexec_load',
      'init_module',
      'keyctl',
    ]
    expect(dangerous.filter(name => free.includes(name))).toEqual([])
  })
})

describe('docker-compose.yml', () => {
  const compose = read('docker-compose.yml')
  const script = read('docker/test/checks.sh')

  test.each([
    ['read_only: true', '--read-only'],
    ['cap_drop: [ALL]', '--cap-drop ALL'],
    ['no-new-privileges:true', '--security-opt no-new-privileges:true'],
    ['seccomp=docker/seccomp.json', '--security-opt seccomp=docker/seccomp.json'],
    ['apparmor=unconfined', '--security-opt apparmor=unconfined'],
    ['pids_limit: 512', '--pids-limit 512'],
    ['mem_limit: 2560m', '--memory 2560m'],
    ['memswap_limit: 2560m', '--memory-swap 2560m'],
    ['/tmp:mode=1777,size=1g', '--tmpfs /tmp:mode=1777,size=1g'],
    ['MAX_CONCURRENT_CALLS: $' + '{MAX_CONCURRENT_CALLS:-4}', '--env MAX_CONCURRENT_CALLS=4'],
  ])('%s is what the image test runs with', (setting, option) => {
    expect(compose).toContain(setting)
    expect(script).toContain(option)
  })

  test('waits for a drain and ten seconds more', () => {
    const drainMs = Number(/DRAIN_MS: \$\{DRAIN_MS:-(\d+)\}/.exec(compose)?.[1])
    const graceSeconds = Number(/stop_grace_period: (\d+)s/.exec(compose)?.[1])
    expect(graceSeconds).toBe(drainMs / 1000 + 10)
  })

  test('gives the memory that its calls at once need', () => {
    const memoryMib = Number(/mem_limit: (\d+)m/.exec(compose)?.[1])
    const calls = /MAX_CONCURRENT_CALLS:-(\d+)\}/.exec(compose)?.[1]
    const host = { cpus: 2, memoryBytes: memoryMib * 1024 ** 2 }
    const config = loadConfig({ HOME: '/home/u', MAX_CONCURRENT_CALLS: calls }, host, { backend: false })
    expect(config.warnings).toEqual([])
  })
})

describe('the stand-ins of the base images', () => {
  const build =
    'docker build --build-arg BASE=python-execute-base:node --build-arg RUNTIME=python-execute-base:debian -t python-execute-worker .'

  test.each(['docs/operations.md', 'docker/make-base.sh'])('are used as %s says', file => {
    expect(read(file)).toContain(build)
  })

  test('have the names that the script gives them, and the Dockerfile the arguments', () => {
    const script = read('docker/make-base.sh')
    expect(script).toMatch(/docker import .* python-execute-base:debian >/)
    expect(script).toMatch(/docker build .* --tag python-execute-base:node /)
    for (const name of ['BASE', 'RUNTIME']) expect(read('Dockerfile')).toMatch(new RegExp(`^ARG ${name}=`, 'm'))
  })
})

describe('the README', () => {
  const readme = read('README.md')

  test('says what to do first where Compose does not start the worker', () => {
    for (const words of ['docker compose version', 'docker compose logs worker', 'Without a registry']) {
      expect(readme).toContain(words)
    }
    expect(read('docs/operations.md')).toContain('### Without a registry\n')
  })

  test('says how long its two commands take', () => {
    expect(readme).toMatch(/page is up in about .* as is the demo over; the tests take about .* minutes/)
  })
})

describe('Dockerfile', () => {
  const dockerfile = read('Dockerfile')

  test('carries the version of package.json', () => {
    const { version } = z.object({ version: z.string() }).parse(JSON.parse(read('package.json')))
    expect(dockerfile).toContain(`ARG VERSION=${version}\n`)
  })

  test('sets only variables that the configuration knows', () => {
    const names = [...dockerfile.matchAll(/^(?:ENV| {4}) ?([A-Z_]+)=/gm)].map(match => match[1] ?? '')
    const example = read('.env.example')
    expect(names).toContain('STATE_DIR')
    expect(names.filter(name => name !== 'NODE_ENV' && !new RegExp(`^#?${name}=`, 'm').test(example))).toEqual([])
  })

  test.each(['version', 'revision', 'created', 'source', 'licenses', 'title', 'description', 'base\\.name'])(
    'has the label %s',
    name => {
      expect(dockerfile).toMatch(new RegExp(`org\\.opencontainers\\.image\\.${name}="[^"]+"`))
    },
  )

  test.each(['BASE', 'RUNTIME', 'SNAPSHOT'])('takes %s, and docs/operations.md says so', name => {
    expect(dockerfile).toMatch(new RegExp(`^ARG ${name}=`, 'm'))
    expect(read('docs/operations.md')).toMatch(new RegExp(`\`${name}[\`=]`))
  })

  test('takes every image from an argument, so that all can be pinned by digest', () => {
    const images = [...dockerfile.matchAll(/^FROM (\S+)/gm)].map(match => match[1])
    expect(images.sort()).toEqual(['$' + '{BASE}', '$' + '{BASE}', '$' + '{RUNTIME}'])
  })

  test.each([
    ['', ''],
    ['20260131T000000Z', '-o Dir::Etc::sourcelist=LIST -o Dir::Etc::sourceparts=/dev/null'],
  ])('with SNAPSHOT=%j asks the archive of that time alone, where one is named', async (snapshot, options) => {
    const folder = await mkdtemp(path.join(tmpdir(), 'snapshot-'))
    onTestFinished(() => rm(folder, { recursive: true }))
    const list = path.join(folder, 'list')
    const part =
      /if \[ -n "\$SNAPSHOT"[\s\S]*? fi /.exec(dockerfile)?.[0].replaceAll('/tmp/snapshot.list', list) ?? 'exit 9'
    expect(dockerfile.match(/apt-get (update|install)/)).toBeNull() // without "$@"
    const env = { SNAPSHOT: snapshot, DEBIAN: 'trixie' }
    const { stdout } = await promisify(execFile)('sh', ['-c', `${part.replaceAll('\\\n', ' ')}\necho "$@"`], { env })
    expect(stdout).toBe(`${options.replace('LIST', list)}\n`)
    const archive = 'deb [check-valid-until=no] http://snapshot.debian.org/archive'
    expect(await readFile(list, 'utf8').catch(() => '')).toBe(
      snapshot === ''
        ? ''
        : `${archive}/debian/${snapshot} trixie main\n${archive}/debian/${snapshot} trixie-updates main\n` +
            `${archive}/debian-security/${snapshot} trixie-security main\n`,
    )
  })

  test('runs as a user of its own, and lets any uid of group 0 write the journal', () => {
    expect(dockerfile).toMatch(/^USER worker$/m)
    expect(dockerfile).toContain('install -d -o worker -g root -m 0770 /var/lib/python-execute')
  })

  test('gives what it copies to the build', () => {
    const ignore = read('.dockerignore')
    const copied = [...dockerfile.matchAll(/^COPY (?!--from)(.+) \S+$/gm)].flatMap(match => (match[1] ?? '').split(' '))
    expect(copied).toContain('src')
    expect(copied.filter(name => !ignore.split('\n').includes(`!${name}`))).toEqual([])
  })
})

describe('the health check of the image', () => {
  const program = fileURLToPath(new URL('../../docker/healthcheck.mjs', import.meta.url))

  async function check(env: Record<string, string>): Promise<{ code: number | null; stdout: string }> {
    const child = spawn(process.execPath, [program], { env, stdio: ['ignore', 'pipe', 'inherit'] })
    let stdout = ''
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      stdout += text
    })
    const [code] = (await once(child, 'close')) as [number | null]
    return { code, stdout }
  }

  test('passes while the worker answers, wherever it listens, and fails when it does not', async () => {
    const server = await startHealthServer({ host: '0.0.0.0', port: 0, view: () => null })
    const { port } = new URL(server.url)
    expect(await check({ HEALTH_HOST: '0.0.0.0', HEALTH_PORT: port })).toEqual({ code: 0, stdout: '' })
    expect(await check({ HEALTH_PORT: port })).toEqual({ code: 0, stdout: '' })
    await server.close()
    const { code, stdout } = await check({ HEALTH_HOST: '0.0.0.0', HEALTH_PORT: port })
    expect(code).toBe(1)
    expect(stdout).toMatch(/^127\.0\.0\.1:\d+\/livez: .*ECONNREFUSED/)
  })

  test('says nothing against a worker that serves no health', async () => {
    expect(await check({ HEALTH_PORT: 'off' })).toEqual({ code: 0, stdout: '' })
  })
})
