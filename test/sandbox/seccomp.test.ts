import { spawnSync } from 'node:child_process'
import { copyFileSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { FOLDER, GUESTS, LANDLOCK, SYSTEM_PYTHON, under, VARIANTS } from './seccomp/run.js'

const INSTALL = `libseccomp's binding for ${SYSTEM_PYTHON} is missing: apt-get install python3-seccomp`

/** `name: code that gives a value` → the values by name, as the code under the filter saw them. */
const answers = async (variant: string, questions: Record<string, string>): Promise<Record<string, unknown>> => {
  const lines = Object.entries(questions).map(([name, code]) => `answers[${JSON.stringify(name)}] = ${code}`)
  const setUp = 'import ctypes, errno, fcntl, json, os, signal, socket, sys, tempfile, threading\nanswers = {}'
  const ended = await under(variant, `${setUp}\n${lines.join('\n')}\nprint(json.dumps(answers))`)
  expect(ended.stderr).toBe('')
  return JSON.parse(ended.stdout) as Record<string, unknown>
}

/** Each question is `[name, code, what it must give]`. */
type Question = readonly [string, string, unknown]
const agree = async (variant: string, questions: readonly Question[]): Promise<void> => {
  const given = await answers(variant, Object.fromEntries(questions.map(([name, code]) => [name, code])))
  expect(given).toEqual(Object.fromEntries(questions.map(([name, , expected]) => [name, expected])))
}

const check = (folder: string) => {
  const imported = spawnSync(SYSTEM_PYTHON, ['-c', 'import seccomp'], { encoding: 'utf8' })
  expect(imported.status, INSTALL).toBe(0)
  return spawnSync(SYSTEM_PYTHON, ['-B', join(folder, 'generate.py'), '--check'], { encoding: 'utf8' })
}

it('leaves nothing of what the code under a filter has written to its home and temporary folder', async () => {
  const code = 'import os, tempfile\nprint(os.environ["HOME"])\nprint(os.path.dirname(tempfile.mkdtemp()))'
  const { stdout } = await under('none', code)
  const places = stdout.trim().split('\n')
  expect(new Set(places).size).toBe(1)
  expect(places).not.toContain(tmpdir())
  expect(places.filter(place => existsSync(place))).toEqual([])
})

describe('the committed filters', () => {
  it('are what libseccomp makes of the policy, and answer every call as the policy says', () => {
    const ended = check(FOLDER)
    expect(ended.stderr).toBe('')
    expect(ended.status).toBe(0)
  }, 90_000)

  it('are refused by the check when one call was slipped in by hand', () => {
    const folder = mkdtempSync(join(tmpdir(), 'seccomp-check-'))
    try {
      for (const name of readdirSync(FOLDER).filter(one => /\.(py|json)$/.test(one))) {
        copyFileSync(join(FOLDER, name), join(folder, name))
      }
      const path = join(folder, 'policy.py')
      const changed = readFileSync(path, 'utf8').replace('"looks into others", guests=REFUSE', '"", guests=ALLOW')
      writeFileSync(path, changed)
      const ended = check(folder)
      expect(ended.status).toBe(1)
      expect(ended.stderr).toMatch(/run generate.py and commit/)
    } finally {
      rmSync(folder, { recursive: true, force: true })
    }
  })
})

describe.each(VARIANTS)('in the kernel, %s', variant => {
  it('answers EPERM to every refused call and ENOSYS to every absent one, and kills nobody', async () => {
    const ended = await under(
      variant,
      `
import rules
wanted = {rules.REFUSE: "EPERM", rules.ABSENT: "ENOSYS"}
wrong, asked = [], 0
for name, decision in sorted(decisions.items()):
    if decision in wanted:
        asked += 1
        answer = call(name, *[-1] * 6)  # arguments for which the kernel itself would answer something else, or nothing bad
        if answer != wanted[decision]:
            wrong.append((name, answer))
print(wrong, asked > 90)
`,
    )
    expect(ended).toMatchObject({ stdout: '[] True\n', stderr: '', code: 0 })
  })

  it('answers ENOSYS to numbers that no kernel has yet', async () => {
    await agree(variant, [
      ['next', 'call(471)', 'ENOSYS'],
      ['far', 'call(100000)', 'ENOSYS'],
      ['negative', 'call(-2)', 'ENOSYS'],
    ])
  })

  it('compares int arguments as the kernel reads them: in their lower 32 bits', async () => {
    const high = '(1 << 32)'
    const questions: Question[] = [
      ['prctl set dumpable', `call("prctl", 4 | ${high}, 0, 0, 0, 0)`, 'EPERM'],
      ['prctl get dumpable', `call("prctl", 3 | ${high}, 0, 0, 0, 0)`, 'ok'],
      ['ioctl type into terminal', `call("ioctl", 0, 0x5412 | ${high}, b"x")`, 'EPERM'],
      ['fcntl set owner', `call("fcntl", 0, 8 | ${high}, os.getpid())`, 'EPERM'],
      ['fcntl get flags', `call("fcntl", 0, 3 | ${high}, 0)`, 'ok'],
      ['madvise page out', `call("madvise", 0, 0, 21 | ${high})`, 'EPERM'],
      ['madvise normal', `call("madvise", 0, 0, ${high})`, 'ok'],
    ]
    if (variant !== 'warden') {
      questions.push(
        ['personality', `call("personality", 0x40000 | ${high})`, 'EPERM'],
        ['personality, asked', `call("personality", 0xffffffff | ${high})`, 'ok'],
        ['vsock', `call("socket", 40 | ${high}, 1, 0)`, 'EPERM'],
        ['pair of datagrams elsewhere', `call("socketpair", 2 | ${high}, 2, 0, bytes(8))`, 'EPERM'],
        ['limits of PID 1', `call("prlimit64", 1 | ${high}, 7, 0, 0)`, 'EPERM'],
        ['own limits', `call("prlimit64", ${high}, 7, 0, 0)`, 'ok'],
        ['block device', `call("mknodat", -100, b"/nonexistent/x", 0x6000 | ${high}, 0)`, 'EPERM'],
        ['FIFO', `call("mknodat", -100, b"/nonexistent/x", 0x1000 | ${high}, 0)`, 'ENOENT'],
      )
    }
    await agree(variant, questions)
  })

  it.runIf(process.arch === 'x64')(
    'knows the second sets of numbers, x32 and int 0x80, and answers ENOSYS',
    async () => {
      await agree(variant, [
        ['x32 getpid', 'call(0x40000000 + 39)', 'ENOSYS'],
        ['x32 execve', 'call(0x40000000 + 520)', 'ENOSYS'],
        ['x32 ptrace', 'call(0x40000000 + 521)', 'ENOSYS'],
      ])
      const code = `
import ctypes, mmap
block = mmap.mmap(-1, 4096, prot=7)
block.write(bytes.fromhex("b814000000cd80c3"))  # mov eax, 20 (getpid); int 0x80; ret
print(ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(block)))() > 0 or "refused", flush=True)
`
      const free = await under('none', code)
      const filtered = await under(variant, code)
      // A kernel without 32-bit programs raises SIGSEGV by itself.
      if (free.signal === null) expect(filtered).toMatchObject({ stdout: 'refused\n', signal: null })
      else expect(filtered).toMatchObject({ stdout: '', signal: free.signal })
    },
  )
})

describe.each(GUESTS)('a guest under %s', variant => {
  it('is refused what opens the kernel, other processes or the host', async () => {
    await agree(variant, [
      ['clone into a user namespace', 'call("clone", 0x10000000 | 17, 0, 0, 0, 0)', 'EPERM'],
      ['clone into a mount namespace', 'call("clone", 0x20000 | 17, 0, 0, 0, 0)', 'EPERM'],
      ['clone of a sibling', 'call("clone", 0x8000 | 17, 0, 0, 0, 0)', 'EPERM'],
      ['clone3', 'call("clone3", 0, 0)', 'ENOSYS'],
      ['limits of the parent', 'call("prlimit64", os.getppid(), 7, 0, bytes(16))', 'EPERM'],
      ['scheduling of the parent', 'call("sched_setscheduler", os.getppid(), 5, bytes(4))', 'EPERM'],
      ['processors of the parent', 'call("sched_setaffinity", os.getppid(), 8, b"\\1" + bytes(7))', 'EPERM'],
      ['priority of the parent', 'call("setpriority", 0, os.getppid(), 19)', 'EPERM'],
      ['priority of the user', 'call("setpriority", 2, 0, 19)', 'EPERM'],
      ['a lease', 'call("fcntl", 0, 1024, 1)', 'EPERM'],
      ['the signal of a lease', 'call("fcntl", 0, 10, 9)', 'EPERM'],
      ['owner by ioctl', 'call("ioctl", 0, 0x8901, bytes(4))', 'EPERM'],
      ['a larger pipe', 'call("fcntl", 0, 1031, 1 << 20)', 'EPERM'],
      ['huge pages', 'call("mmap", 0, 1 << 21, 3, 0x40022, -1, 0)', 'EPERM'],
      ['being adopted by a tracer', 'call("prctl", 0x59616d61, -1, 0, 0, 0)', 'EPERM'],
      ['reaping', 'call("prctl", 36, 1, 0, 0, 0)', 'EPERM'],
      ['no randomisation', 'call("personality", 0x40000)', 'EPERM'],
      ['netlink', 'call("socket", 16, 3, 0)', 'EPERM'],
      ['packet socket', 'call("socket", 17, 3, 768)', 'EPERM'],
      ['raw socket', 'call("socket", 2, 3, 1)', 'EPERM'],
      ['ping socket', 'call("socket", 2, 2, 1)', 'EPERM'],
      ['alg socket', 'call("socket", 38, 5, 0)', 'EPERM'],
      ['a filter on a socket', 'call("setsockopt", 0, 1, 26, bytes(16), 16)', 'EPERM'],
      ['character device', 'call("mknodat", -100, b"/nonexistent/x", 0x2000, 0)', 'EPERM'],
    ])
  })

  it('is let do what the standard library does with itself', async () => {
    await agree(variant, [
      ['isatty', 'os.isatty(0)', false],
      ['name', 'call("prctl", 15, b"name", 0, 0, 0)', 'ok'],
      ['own limits', 'len(__import__("resource").getrlimit(7))', 2],
      ['own limits by number', 'len(__import__("resource").prlimit(os.getpid(), 7))', 2],
      ['own processors', 'len(os.sched_getaffinity(0)) > 0', true],
      ['set own processors', 'os.sched_setaffinity(0, os.sched_getaffinity(0))', null],
      ['own group', 'os.getpgid(0) > 0', true],
      ['signal to oneself', 'os.kill(os.getpid(), 0)', null],
      ['raise', 'signal.raise_signal(signal.SIGWINCH)', null],
      ['pthread_kill', 'signal.pthread_kill(threading.get_ident(), 0)', null],
      ['clocks', '__import__("time").thread_time() > 0', true],
      ['stream pair', '[s.close() for s in socket.socketpair()]', [null, null]],
      ['stream pair, not blocking', '[s.close() for s in socket.socketpair(type=2049)]', [null, null]],
      ['FIFO', 'os.mkfifo(tempfile.mkdtemp() + "/fifo")', null],
      ['random', 'len(os.urandom(8))', 8],
      ['umask', 'os.umask(0o22) >= 0', true],
    ])
  })
})

describe('a guest under namespaces', () => {
  it('has processes, sockets and signals of its own', async () => {
    await agree('namespaces', [
      ['fork', 'os.waitpid(os.fork() or os._exit(3), 0)[1]', 3 << 8],
      ['tcp', 'socket.create_server(("127.0.0.1", 0)).close()', null],
      ['udp', 'socket.socket(socket.AF_INET, socket.SOCK_DGRAM).close()', null],
      ['unix datagrams', 'socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).close()', null],
      ['names without netlink', 'len(socket.getaddrinfo("localhost", 80)) > 0', true],
      ['pidfd', 'os.close(os.pidfd_open(os.getpid()))', null],
      ['nicer', 'os.nice(1) >= 1', true],
      ['nicer by its own number', 'os.setpriority(os.PRIO_PROCESS, os.getpid(), 3)', null],
      ['watching a folder', 'call("inotify_init1", 0)', 'EPERM'],
      ['rights by path', 'os.chmod(tempfile.mkdtemp(), 0o700)', null],
      ['end with the parent', 'call("prctl", 1, 0, 0, 0, 0)', 'ok'],
    ])
  })
})

describe.each(LANDLOCK)('a guest under %s', variant => {
  it('reaches no process but itself', async () => {
    await agree(variant, [
      ['fork', 'call("clone", 17, 0, 0, 0, 0)', 'EPERM'],
      ['vfork', 'call("clone", 0x4100 | 17, 0, 0, 0, 0)', 'EPERM'],
      ['a thread outside the process', 'call("clone", 0xf00, 0, 0, 0, 0)', 'EPERM'],
      ['kill the parent', 'call("kill", os.getppid(), 0)', 'EPERM'],
      ['kill the group', 'call("kill", 0, 0)', 'EPERM'],
      ['kill its group by number', 'call("kill", -os.getpid(), 0)', 'EPERM'],
      ['kill everybody', 'call("kill", -1, 0)', 'EPERM'],
      ['kill above 32 bits', 'call("kill", os.getppid() | 1 << 32, 0)', 'EPERM'],
      ['tgkill', 'call("tgkill", os.getppid(), os.getppid(), 0)', 'EPERM'],
      ['tgkill of no process', 'call("tgkill", -1, os.getppid(), 0)', 'EPERM'],
      ['tkill', 'call("tkill", os.getppid(), 0)', 'EPERM'],
      ['queue a signal', 'call("rt_sigqueueinfo", os.getppid(), 10, bytes(128))', 'EPERM'],
      ['queue to a thread', 'call("rt_tgsigqueueinfo", os.getppid(), os.getppid(), 10, bytes(128))', 'EPERM'],
      ['pidfd of itself', 'call("pidfd_open", os.getpid(), 0)', 'EPERM'],
      ['group of the parent', 'call("getpgid", os.getppid())', 'EPERM'],
      ['priority of the parent', 'call("getpriority", 0, os.getppid())', 'EPERM'],
      ['own processor mask', 'call("sched_getaffinity", os.getpid(), 8, bytes(8))', 'ok'],
      ['processor mask of the parent', 'call("sched_getaffinity", os.getppid(), 8, bytes(8))', 'ENOSYS'],
      ['CPU clock of the parent', 'call("clock_gettime", (~os.getppid() << 3) | 2, bytes(16))', 'EPERM'],
      ['end apart from the parent', 'call("prctl", 1, 0, 0, 0, 0)', 'EPERM'],
      ['watching a folder', 'call("inotify_init1", 0)', 'EPERM'],
      ['a session', 'call("setsid")', 'EPERM'],
    ])
  })

  it('has no socket that reaches beyond the process', async () => {
    await agree(variant, [
      ['tcp', 'call("socket", 2, 1, 0)', 'EPERM'],
      ['udp', 'call("socket", 2, 2, 0)', 'EPERM'],
      ['unix', 'call("socket", 1, 1, 0)', 'EPERM'],
      ['pair of datagrams', 'call("socketpair", 1, 2, 0, bytes(8))', 'EPERM'],
      ['pair of packets', 'call("socketpair", 1, 5, 0, bytes(8))', 'EPERM'],
      ['connect', 'call("connect", 0, bytes(16), 16)', 'EPERM'],
      ['bind', 'call("bind", 0, bytes(16), 16)', 'EPERM'],
      ['send with an address', 'call("sendto", 0, b"x", 1, 0, b"\\1\\0/x", 4)', 'EPERM'],
    ])
  })

  it('can send nothing but bytes through an end of a stream pair: no address, no descriptors', async () => {
    const ended = await under(
      variant,
      `
import errno, socket
a, b = socket.socketpair()
try:
    a.sendmsg([b"x"], [], 0, "/dev/log")
except OSError as error:
    print(errno.errorcode[error.errno])
`,
    )
    expect(ended.stdout).toBe('EPERM\n')
  })
})

describe('metadata of files, which Landlock does not judge', () => {
  const file = 'os.open(tempfile.mkdtemp(), os.O_RDONLY)'
  const changes = {
    chmod: 'call("fchmodat", -100, b"/nonexistent", 0o600)',
    chown: 'call("fchownat", -100, b"/nonexistent", 0, 0, 0)',
    'utime by path': 'call("utimensat", -100, b"/nonexistent", 0, 0)',
    setxattr: 'call("setxattr", b"/nonexistent", b"user.x", b"x", 1, 0)',
    fchmod: `call("fchmod", ${file}, 0o700)`,
    'utime by descriptor': `call("utimensat", ${file}, 0, 0, 0)`,
  }
  const given = { chmod: 'ENOENT', chown: 'ENOENT', 'utime by path': 'ENOENT', setxattr: 'ENOENT' }
  const byPath = { 'utime by path': 'EPERM', setxattr: 'EPERM' }
  const refused = { chmod: 'EPERM', chown: 'EPERM', 'utime by path': 'EPERM', setxattr: 'EPERM' }

  it.each([
    ['namespaces', { ...given, fchmod: 'ok', 'utime by descriptor': 'ok' }],
    ['landlock', { ...given, ...byPath, fchmod: 'ok', 'utime by descriptor': 'ok' }],
    ['landlock-shared-uid', { ...refused, fchmod: 'ok', 'utime by descriptor': 'ok' }],
    ['landlock-shared-files', { ...refused, fchmod: 'EPERM', 'utime by descriptor': 'EPERM' }],
  ])('under %s are changed only where no file of another can be meant', async (variant, expected) => {
    expect(await answers(variant, changes)).toEqual(expected)
  })
})
