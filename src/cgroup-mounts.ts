import path from 'node:path'

/** One cgroup hierarchy as /proc/self/mountinfo shows it: where it is mounted, and which of its folders the mount shows. */
export interface CgroupMount {
  readonly version: 1 | 2
  readonly root: string
  readonly mountPoint: string
  readonly controllers: readonly string[]
}

/**
 * A container without a cgroup namespace sees its path as the host does (/docker/abc) while the mount shows that very
 * folder as its root; one that was moved out of its namespace's root sees "/../other". In the first case the mount's root is
 * cut off, and in all cases that do not fit the mount point is the nearest thing to the process's own cgroup.
 */
export function foldersUpTo(mount: CgroupMount, own: string): string[] {
  const inside =
    mount.root === '/'
      ? own
      : own === mount.root || own.startsWith(`${mount.root}/`)
        ? own.slice(mount.root.length)
        : ''
  const parts = inside.split('/').filter(part => part !== '')
  if (parts.includes('..')) return [mount.mountPoint]
  return Array.from({ length: parts.length + 1 }, (_, depth) =>
    path.posix.join(mount.mountPoint, ...parts.slice(0, depth)),
  )
}

/** Lines as in proc(5): id parent major:minor root mount-point options [tags] - type source super-options. */
export function parseMounts(mountinfo: string): CgroupMount[] {
  const mounts: CgroupMount[] = []
  for (const line of mountinfo.split('\n')) {
    const [before = '', after = ''] = line.split(' - ', 2)
    const [, , , root, mountPoint] = before.split(' ')
    const [type, , options = ''] = after.split(' ')
    if (root === undefined || mountPoint === undefined) continue
    if (type !== 'cgroup' && type !== 'cgroup2') continue
    mounts.push({
      version: type === 'cgroup2' ? 2 : 1,
      root: unescapeOctal(root),
      mountPoint: unescapeOctal(mountPoint),
      controllers: options.split(',').filter(name => name === 'cpu' || name === 'memory'),
    })
  }
  return mounts
}

function unescapeOctal(text: string): string {
  return text.replace(/\\([0-7]{3})/g, (_, digits: string) => String.fromCharCode(Number.parseInt(digits, 8)))
}
