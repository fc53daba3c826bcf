import { describe, expect, test } from 'vitest'
import type { SandboxFacts, SandboxReport } from '../../../src/outcome.js'
import { hints } from '../../../src/tool/hints.js'
import { captured, facts, reportOf } from './fixtures.js'

const NETWORK = ['there is no network in the sandbox']
const PROCESSES = ['no processes can be started in this sandbox']
const landlock: SandboxFacts = { ...facts, tier: 'landlock', subprocesses: false }

const of = (stderr: string, where = facts, changes: Partial<SandboxReport> = { status: 'failed' }) =>
  hints(reportOf({ stderr: captured(stderr), ...changes }), where)

const SOCKET_REFUSED = `  File "/usr/lib/python3.11/socket.py", line 232, in __init__
    _socket.socket.__init__(self, family, type, proto, fileno)
PermissionError: [Errno 1] Operation not permitted
`
const FORK_REFUSED = `  File "/usr/lib/python3.11/subprocess.py", line 1834, in _execute_child
    self.pid = _fork_exec(
               ^^^^^^^^^^^
PermissionError: [Errno 1] Operation not permitted
`
const SEMAPHORE_REFUSED = `    sl = self._semlock = _multiprocessing.SemLock(
                         ^^^^^^^^^^^^^^^^^^^^^^^^^
PermissionError: [Errno 13] Permission denied
`
const FILE_REFUSED = `  File "/code/main.py", line 1, in <module>
    open("/etc/shadow")
PermissionError: [Errno 13] Permission denied: '/etc/shadow'
`

describe('code that failed for want of a network is told so', () => {
  test.each([
    'urllib.error.URLError: <urlopen error [Errno -3] Temporary failure in name resolution>\n',
    'socket.gaierror: [Errno -2] Name or service not known',
    'OSError: [Errno 101] Network is unreachable\n\n',
    "requests.exceptions.ConnectionError: (Caused by NameResolutionError('[Errno -3] Temporary failure in name resolution'))",
    'curl: (6) Could not resolve host: example.com\n',
  ])('%s', stderr => {
    expect(of(`Traceback (most recent call last):\n${stderr}`)).toEqual(NETWORK)
  })

  test('where the tier refuses the socket itself', () => {
    expect(of(SOCKET_REFUSED, landlock)).toEqual(NETWORK)
  })
})

describe('code that failed for want of a process is told so', () => {
  test.each([FORK_REFUSED, SEMAPHORE_REFUSED, FORK_REFUSED.replace('self.pid = _fork_exec(', 'import os; os.fork()')])(
    '%s',
    stderr => {
      expect(of(stderr, landlock)).toEqual(PROCESSES)
    },
  )

  test('but not where processes can be started', () => {
    expect(of(FORK_REFUSED)).toEqual([])
  })
})

describe('nothing is said', () => {
  test.each([
    ['of a file that may not be read', FILE_REFUSED],
    ['of an error that the code went on after', `OSError: Network is unreachable\n${FILE_REFUSED}`],
    ['without stderr', ''],
  ])('%s', (_what, stderr) => {
    expect(of(stderr, landlock)).toEqual([])
  })

  test('to code that did not fail', () => {
    expect(of('OSError: Network is unreachable\n', facts, { status: 'completed' })).toEqual([])
  })
})
