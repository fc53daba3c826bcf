import os from 'node:os'
import type { Pool } from './pool.js'

const WALL_MS = 10_000

/**
 * Escapes that must fail before the worker serves. Each prints its name only if it gets through; "done" proves that the
 * list was run to its end, so that a test which can't run counts as failed.
 */
function attempts(workerPid: number, parentPid: number): string {
  return `
import os, socket
def attempt(name, action):
    try:
        if action() is not False:
            print(name)
    except Exception:
        pass
for pid in (${workerPid}, ${parentPid}):
    if pid > 2:
        attempt(f"signal process {pid}", lambda: os.kill(pid, 0))
        for kind in ("environ", "mem", "maps"):
            attempt(f"open /proc/{pid}/{kind}", lambda: open(f"/proc/{pid}/{kind}", "rb").read(1) != b"" and False or True)
attempt("read /etc/shadow", lambda: open("/etc/shadow").read())
attempt("list /root", lambda: os.listdir("/root") != [] and open("/root/.profile"))
attempt("write to /usr", lambda: open("/usr/self-test", "x"))
def connect():
    with socket.create_connection(("127.0.0.1", 22), timeout=0.2):
        pass
def reach():
    s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    s.connect(("192.0.2.1", 53))
attempt("reach the network", reach)
attempt("raise a limit", lambda: __import__("resource").setrlimit(7, (1 << 20, 1 << 20)))
if os.getuid() == 0:
    print("run as root")
print("done")
`
}

/** Runs the list in a real sandbox; returns the names of what got through, or why the test could not be run. */
export async function selfTest(pool: Pool): Promise<string[]> {
  const report = await pool.run({
    code: attempts(process.pid, os.platform() === 'linux' ? process.ppid : 0),
    wallMs: WALL_MS,
    signal: new AbortController().signal,
    onStdout: () => {},
  })
  const lines = report.stdout.text.split('\n').filter(line => line !== '')
  if (report.status === 'completed' && lines.at(-1) === 'done') return lines.slice(0, -1)
  return [`the test itself ended as ${report.status}: ${report.reason ?? report.stderr.text.slice(-300)}`]
}
