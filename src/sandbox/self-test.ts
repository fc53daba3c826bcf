import { randomBytes } from 'node:crypto'
import { chmod, rm, writeFile } from 'node:fs/promises'
import net from 'node:net'
import os from 'node:os'
import path from 'node:path'
import { z } from 'zod'
import type { SandboxConfig } from '../config.js'
import type { SandboxFacts, SandboxReport } from '../outcome.js'
import type { Pool } from './pool.js'
import { makeTemporaryFolder } from './temporary-folder.js'

const WALL_MS = 30_000
const MIB = 1024 * 1024
/** What the second sandbox takes of memory: above what any tolerance of the watch explains. */
const MEMORY_SHARE = 1.3
const MEMORY_STEP_BYTES = 16 * MIB
/** After that the watch, which looks every 20 ms, has had its chance even on a machine that is busy with other things. */
const MEMORY_HELD_S = 2

/** Things of the host that no sandbox may reach. */
interface Bait {
  readonly file: string
  readonly port: number
  /** The worker, and what started it. */
  readonly pids: readonly number[]
  /** Name of the files that the first sandbox leaves for the second. */
  readonly mark: string
  /** [what it limits, name in the resource module, the highest hard limit that there may be] */
  readonly limits: readonly (readonly [string, string, number])[]
}

/** The one line of JSON that each sandbox prints: a test that can't be run to its end has no line, and counts as failed. */
const Found = z.object({ through: z.array(z.string()), left: z.array(z.string()).default([]) })

/** Where code may leave a file, if only for want of a layer: then these are the host's own folders. */
const WIDE_PLACES = ['/tmp', '/var/tmp', '/dev/shm', '/run', '/code']

const ATTEMPT = `
import json, mmap, os, resource, socket, time

through = []

def attempt(name, action):
    try:
        action()
    except Exception:
        return
    if name not in through:
        through.append(name)
`

/** Escapes that must fail before the worker serves. Then it leaves a file wherever it can, and stays while another looks. */
function firstSandbox({ file, port, pids, mark, limits }: Bait): string {
  return `${ATTEMPT}
def udp():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.connect(("192.0.2.1", 53))

for pid in ${JSON.stringify(pids)}:
    attempt(f"signal process {pid}", lambda: os.kill(pid, 0))
    for kind in ("environ", "mem", "maps", "cwd/"):
        attempt(f"open /proc/{pid}/{kind}", lambda: os.close(os.open(f"/proc/{pid}/{kind}", os.O_RDONLY)))
attempt("read a file of the host", lambda: open(${JSON.stringify(file)}).read())
attempt("list a folder of the host", lambda: os.listdir(${JSON.stringify(path.dirname(file))}))
attempt("read /etc/shadow", lambda: open("/etc/shadow").read())
attempt("write to /usr", lambda: open("/usr/self-test", "x"))
attempt("connect to the host", lambda: socket.create_connection(("127.0.0.1", ${port}), timeout=0.5))
attempt("reach the network", udp)
for name, kind, most in ${JSON.stringify(limits)}:
    hard = resource.getrlimit(getattr(resource, kind))[1]
    if hard == resource.RLIM_INFINITY or hard > most:
        through.append(f"exceed the limit of {name}")
limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
attempt("raise a limit", lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (limit + 1, limit + 1)))
try:
    with open("/proc/self/status") as status:
        capabilities = [line.split()[1] for line in status if line.startswith("CapEff")]
except OSError:
    capabilities = []  # no /proc here
if any(int(value, 16) for value in capabilities):
    through.append("keep capabilities")

left = []
box = os.path.dirname(os.getcwd())
for place in dict.fromkeys((
    os.getcwd(), f"{box}/code", f"{box}/home/sandbox", f"{box}/tmp", os.environ.get("HOME", "/"),
    *${JSON.stringify(WIDE_PLACES)},
)):
    file = os.path.join(place, ${JSON.stringify(mark)})
    try:
        with open(file, "w") as out:
            out.write("left")
        left.append(file)
        # Nothing but the sandboxes may keep the other from reading it.
        os.chmod(file, 0o644)
        os.chmod(place, 0o755)
        os.chmod(box, 0o755)
    except OSError:
        pass
print(json.dumps({"through": through, "left": left}), flush=True)
time.sleep(${WALL_MS / 1000})
`
}

/** Looks for what the first has left, while that one is still there; then takes more memory than it may have. */
function secondSandbox(left: readonly string[], memoryBytes: number): string {
  return `${ATTEMPT}
for file in ${JSON.stringify(left)}:
    attempt("see another sandbox’s files", lambda: open(file).close())
if os.getcwd() != "/work":  # else it has a file tree of its own
    attempt("list the folder of all sandboxes", lambda: os.listdir(os.path.dirname(os.path.dirname(os.getcwd()))))
print(json.dumps({"through": through}), flush=True)

flags = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | mmap.MAP_POPULATE
blocks = [mmap.mmap(-1, ${MEMORY_STEP_BYTES}, flags=flags) for _ in range(${Math.ceil((MEMORY_SHARE * memoryBytes) / MEMORY_STEP_BYTES)})]
time.sleep(${MEMORY_HELD_S})
`
}

/**
 * Runs the escapes in two real sandboxes that live side by side; returns the names of what got through, or why the test
 * could not be run. Takes the time that touching the memory limit once takes, and about 50 ms.
 */
export async function selfTest(pool: Pool, config: SandboxConfig): Promise<string[]> {
  const folder = await makeTemporaryFolder(os.tmpdir(), 'pyx-test-')
  const server = net.createServer(socket => socket.destroy())
  try {
    // Only the sandbox may keep it from being read.
    await chmod(folder, 0o755)
    const file = path.join(folder, 'bait')
    await writeFile(file, 'bait', { mode: 0o644 })
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject)
      server.listen(0, '127.0.0.1', resolve)
    })
    const { port } = server.address() as net.AddressInfo
    // 1 and 2 are the sandbox's own where it has a pid namespace.
    const own = pool.facts.tier === 'namespaces' ? 2 : 0
    const pids = [process.pid, process.ppid].filter(pid => pid > own)
    const mark = `self-test-${randomBytes(6).toString('hex')}`
    return await sideBySide(pool, { file, port, pids, mark, limits: hardLimits(config, pool.facts) }, config)
  } finally {
    server.close()
    await rm(folder, { recursive: true, force: true })
  }
}

/** The hard limits that a guest must have; the number of processes only where the uid that it is counted for is its own. */
function hardLimits(config: SandboxConfig, facts: SandboxFacts): Bait['limits'] {
  const ownUid = facts.tier === 'namespaces' || facts.layers.some(layer => layer.name === 'uid' && layer.inForce)
  return [
    ['open files', 'RLIMIT_NOFILE', config.openFiles],
    ['file size', 'RLIMIT_FSIZE', config.fileBytes],
    // The warden is one of them.
    ...(ownUid ? ([['processes', 'RLIMIT_NPROC', config.processes + 1]] as const) : []),
  ]
}

async function sideBySide(pool: Pool, bait: Bait, config: SandboxConfig): Promise<string[]> {
  const enough = new AbortController()
  let said = ''
  let line: () => void = () => {}
  const spoken = new Promise<void>(resolve => {
    line = resolve
  })
  const first = pool.run({
    isOurs: true,
    code: firstSandbox(bait),
    wallMs: WALL_MS,
    signal: enough.signal,
    onStdout: text => {
      said += text
      if (said.includes('\n')) line()
    },
  })
  try {
    const ended = await Promise.race([spoken, first])
    const found = foundIn(said)
    if (found === null) return [ended === undefined ? 'the test itself said what it should not' : unrunnable(ended)]
    if (found.left.length === 0) return ['the test itself could not leave a file']
    const second = await pool.run({
      isOurs: true,
      code: secondSandbox(found.left, config.memoryBytes),
      wallMs: WALL_MS,
      signal: new AbortController().signal,
      onStdout: () => {},
    })
    const seen = foundIn(second.stdout.text)
    if (seen === null) return [...found.through, unrunnable(second)]
    return [...found.through, ...seen.through, ...memoryHeld(second)]
  } finally {
    enough.abort('the self-test is over')
    await first
    await removeMarks(bait.mark)
  }
}

/** Of a sandbox that could write to folders of the host: what it has left there. The name is this test's own. */
async function removeMarks(mark: string): Promise<void> {
  for (const place of WIDE_PLACES) await rm(path.join(place, mark), { force: true }).catch(() => {})
}

function foundIn(text: string): z.infer<typeof Found> | null {
  const line = text.split('\n')[0] ?? ''
  try {
    return Found.parse(JSON.parse(line))
  } catch {
    return null
  }
}

/** Empty where something has kept the sandbox from its memory: the limit, or one that it met before. */
function memoryHeld(report: SandboxReport): string[] {
  switch (report.status) {
    case 'out_of_memory':
    case 'limit_exceeded': // less CPU time than it takes
    case 'timed_out':
      return []
    case 'failed': // the machine itself refuses to give so much
      return /MemoryError|Cannot allocate memory/.test(report.stderr.text) ? [] : [unrunnable(report)]
    case 'crashed': // the container's own limit is lower
      return report.signal === 'SIGKILL' ? [] : [unrunnable(report)]
    case 'completed':
      return ['exceed memory']
    case 'cancelled':
    case 'interrupted':
      return [unrunnable(report)]
  }
}

function unrunnable(report: SandboxReport): string {
  return `the test itself ended as ${report.status}: ${report.reason ?? report.stderr.text.slice(-300)}`
}
