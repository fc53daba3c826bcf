import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises'
import net from 'node:net'
import os from 'node:os'
import path from 'node:path'
import type { Pool } from './pool.js'

const WALL_MS = 10_000

/** Things of the host that no sandbox may reach. */
interface Bait {
  readonly file: string
  readonly port: number
  /** The worker, and what started it. */
  readonly pids: readonly number[]
}

/**
 * Escapes that must fail before the worker serves. Each prints its name only if it gets through; "done" proves that the
 * list was run to its end, so that a test which can't run counts as failed.
 */
function attempts({ file, port, pids }: Bait): string {
  return `
import os, resource, socket

def attempt(name, action):
    try:
        action()
    except Exception:
        return
    print(name)

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
limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
attempt("raise a limit", lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (limit + 1, limit + 1)))
try:
    with open("/proc/self/status") as status:
        capabilities = [line.split()[1] for line in status if line.startswith("CapEff")]
except OSError:
    capabilities = []  # no /proc here
if any(int(value, 16) for value in capabilities):
    print("keep capabilities")
print("done")
`
}

/** Runs the list in a real sandbox; returns the names of what got through, or why the test could not be run. */
export async function selfTest(pool: Pool): Promise<string[]> {
  const folder = await mkdtemp(path.join(os.tmpdir(), 'pyx-test-'))
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
    return await run(pool, { file, port, pids: [process.pid, process.ppid].filter(pid => pid > own) })
  } finally {
    server.close()
    await rm(folder, { recursive: true, force: true })
  }
}

async function run(pool: Pool, bait: Bait): Promise<string[]> {
  const report = await pool.run({
    code: attempts(bait),
    wallMs: WALL_MS,
    signal: new AbortController().signal,
    onStdout: () => {},
  })
  const lines = report.stdout.text.split('\n').filter(line => line !== '')
  if (report.status === 'completed' && lines.at(-1) === 'done') return lines.slice(0, -1)
  return [`the test itself ended as ${report.status}: ${report.reason ?? report.stderr.text.slice(-300)}`]
}
