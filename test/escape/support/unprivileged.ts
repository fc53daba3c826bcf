import { beforeAll } from 'vitest'

/** A user of no name, no groups and no home, as in a container that was started with a bare uid. */
const UNPRIVILEGED = 54_321

/** Tests that run as root leave that behind, once and for all: every file has a process of its own. */
export function beNobody(): void {
  beforeAll(() => {
    if (process.getuid?.() !== 0) return
    process.setgroups?.([])
    process.setgid?.(UNPRIVILEGED)
    process.setuid?.(UNPRIVILEGED)
  })
}
