import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'

/** A file system of 256 KiB that exists in a mount namespace of its own, and is gone when that is. */
export interface SmallDisk {
  /** Its folder; elsewhere that is an empty folder. */
  readonly path: string
  /** The same folder as this process can reach it. */
  readonly pathFromHere: string
  /** The command that runs another one where the disk can be seen. */
  readonly inside: readonly string[]
  /** Until not a byte fits any more. */
  fill(): void
  /** Gives back what fill() took. */
  free(): void
  setReadOnly(readOnly: boolean): void
  close(): Promise<void>
}

/** Needs root or user namespaces. Throws with the reason where it has neither. */
export async function makeSmallDisk(): Promise<SmallDisk> {
  const folder = await mkdtemp(path.join(os.tmpdir(), 'fault-disk-'))
  const isRoot = process.getuid?.() === 0
  const asRoot = isRoot ? [] : ['--user', '--map-root-user']
  const script = 'mount -t tmpfs -o size=256k,mode=700 fault-disk "$0" && echo mounted && exec cat'
  const apart = ['unshare', ...asRoot, '--mount', '--propagation', 'private']
  // Ends with its standard input, and so with this process, however that ends.
  const [command = '', ...args] = [...apart, 'sh', '-c', script, folder]
  const holder = spawn(command, args, { stdio: ['pipe', 'pipe', 'pipe'] })
  let said = ''
  holder.stdout.on('data', (text: Buffer) => {
    said += String(text)
  })
  holder.stderr.on('data', (text: Buffer) => {
    said += String(text)
  })
  const ended = once(holder, 'close')
  await Promise.race([once(holder.stdout, 'data'), ended])
  if (!said.startsWith('mounted')) throw new Error(`no disk can be made here: ${said}`)
  const inside = [
    'nsenter',
    '--target',
    String(holder.pid),
    ...(isRoot ? [] : ['--user', '--preserve-credentials']),
    '--mount',
  ]

  /** `$0` is the disk's folder. */
  function sh(script: string): void {
    const [command = '', ...args] = inside
    const { status, stderr } = spawnSync(command, [...args, 'sh', '-c', script, folder], { encoding: 'utf8' })
    if (status !== 0) throw new Error(`${script}: ${stderr}`)
  }

  return {
    path: folder,
    pathFromHere: `/proc/${holder.pid}/root${folder}`,
    inside,
    fill: () => sh('dd if=/dev/zero of="$0/filler" bs=4k 2>&1 | grep -q "No space left"'),
    free: () => sh('rm -f "$0/filler"'),
    // Another mount of the same over it: the one below can not be made read-only while a file on it is open for writing.
    setReadOnly: readOnly =>
      sh(readOnly ? 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0"' : 'umount --lazy "$0"'),
    async close() {
      holder.stdin.end()
      await ended
      await rm(folder, { recursive: true, force: true })
    },
  }
}
