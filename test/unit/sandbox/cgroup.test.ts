import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { openCgroupHome } from '../../../src/sandbox/cgroup.js'

let top: string
let places: { procFolder: string }
/** Where the hierarchy is mounted. */
let mounted: string

beforeEach(() => {
  top = mkdtempSync(path.join(os.tmpdir(), 'cgroup-'))
  places = { procFolder: path.join(top, 'proc') }
  mounted = path.join(top, 'a mount')
  mkdirSync(path.join(places.procFolder, 'self'), { recursive: true })
  mkdirSync(mounted)
})

afterEach(() => rmSync(top, { recursive: true, force: true }))

function process_(pid: number, started: number): void {
  const folder = path.join(places.procFolder, String(pid))
  mkdirSync(folder, { recursive: true })
  const zeros = Array.from({ length: 17 }, () => '0').join(' ')
  writeFileSync(path.join(folder, 'stat'), `${pid} (a ) b) S 1 ${zeros} ${started} 0 0\n`)
}

interface Shown {
  readonly own: string
  readonly root?: string
  readonly kind?: string
}

function shown({ own, root = '/', kind = 'cgroup2' }: Shown): void {
  const at = mounted.replaceAll(' ', '\\040')
  writeFileSync(path.join(places.procFolder, 'self', 'cgroup'), `4:memory:/x\n0::${own}\n`)
  writeFileSync(
    path.join(places.procFolder, 'self', 'mountinfo'),
    `31 23 0:28 ${root} ${at} rw,nosuid - ${kind} cgroup2 rw,nsdelegate\n`,
  )
  process_(process.pid, 77)
}

/** A folder as the kernel shows a cgroup, with this process in it. */
function group(at: string, files: Readonly<Record<string, string>> = {}): string {
  const folder = path.join(mounted, at)
  mkdirSync(folder, { recursive: true })
  const all = {
    'cgroup.procs': `12\n${process.pid}\n`,
    'cgroup.controllers': 'cpu memory pids\n',
    'cgroup.subtree_control': 'memory pids\n',
    ...files,
  }
  for (const [name, text] of Object.entries(all)) writeFileSync(path.join(folder, name), text)
  return folder
}

const folders = (folder: string) =>
  readdirSync(folder, { withFileTypes: true })
    .filter(entry => entry.isDirectory())
    .map(entry => entry.name)

describe('openCgroupHome', () => {
  it.each([
    ['a process at the root of its cgroup namespace', { own: '/' }, '.'],
    ['a process below the mount', { own: '/system.slice/worker.service' }, 'system.slice/worker.service'],
    ['a mount that shows a part of the hierarchy', { own: '/docker/abc', root: '/docker/abc' }, '.'],
    ['a process below such a part', { own: '/docker/abc/in', root: '/docker/abc' }, 'in'],
  ])('makes a folder for groups in the own cgroup of %s', async (_, where, at) => {
    shown(where)
    const own = group(at)
    const home = await openCgroupHome(places)
    expect(home).toMatchObject({ folder: expect.stringMatching(/\/pyx-\d+-77-\d+$/) })
    expect(folders(own)).toContain(path.basename('folder' in home ? home.folder : ''))
  })

  it('stays beside the leaf into which the process that has started it was moved', async () => {
    shown({ own: '/pyx-worker-5-1' })
    process_(5, 1)
    group('.', { 'cgroup.procs': '' })
    group('pyx-worker-5-1')
    const home = await openCgroupHome(places)
    expect('folder' in home && path.dirname(home.folder)).toBe(mounted)
  })

  it.each([
    ['no hierarchy of version 2 is mounted', { own: '/', kind: 'cgroup' }, {}, /no cgroup v2 hierarchy is mounted/],
    [
      'the mount shows another part',
      { own: '/docker/abc', root: '/other' },
      { 'cgroup.procs': '1\n' },
      /does not show/,
    ],
    ['it is outside of its namespace’s root', { own: '/../other' }, { 'cgroup.procs': '1\n' }, /does not show/],
    ['memory is held elsewhere', { own: '/' }, { 'cgroup.controllers': 'hugetlb\n' }, /no memory controller .*hugetlb/],
    ['no controller is delegated', { own: '/' }, { 'cgroup.controllers': '\n' }, /no memory controller .*none/],
  ] as const)('says so where %s', async (_, where, files, why) => {
    shown(where)
    group('.', files)
    expect(await openCgroupHome(places)).toEqual({ step: expect.stringMatching(why), errno: 0 })
  })

  it('says with which errno the kernel refuses a controller, and leaves no folder', async () => {
    shown({ own: '/' })
    const own = group('.', { 'cgroup.subtree_control': '' })
    rmSync(path.join(own, 'cgroup.subtree_control'))
    mkdirSync(path.join(own, 'cgroup.subtree_control'))
    expect(await openCgroupHome(places)).toEqual({
      step: 'cgroup.subtree_control of its cgroup',
      errno: os.constants.errno.EISDIR,
    })
    expect(folders(own)).toEqual(['cgroup.subtree_control'])
  })

  it('removes the folders of workers that have gone, whatever is in them', async () => {
    shown({ own: '/' })
    process_(41, 100)
    process_(42, 100)
    const own = group('.')
    // Gone; the number has another process now; lives; gone but not empty: of another pid namespace.
    const names = ['pyx-40-100-1', 'pyx-worker-40-100', 'pyx-41-99-2', 'pyx-42-100-1', 'pyx-43-100-1', 'something-else']
    for (const name of names) mkdirSync(path.join(own, name, '7'), { recursive: true })
    writeFileSync(path.join(own, 'pyx-43-100-1', 'cgroup.events'), 'populated 1\nfrozen 0\n')
    await openCgroupHome(places)
    expect(folders(own).filter(name => !name.includes(`-${process.pid}-`))).toEqual([
      'pyx-42-100-1',
      'pyx-43-100-1',
      'something-else',
    ])
  })
})

/** Runs Python with core/cgroup.py at hand as `cgroup`, and a folder as `home`; returns what it prints. */
function inPython(code: string): string {
  const core = fileURLToPath(new URL('../../../src/sandbox/python/core', import.meta.url))
  const start =
    'import os, sys, types\nours = types.ModuleType("ours")\nours.__path__ = [sys.argv[1]]\nsys.modules["ours"] = ours\n' +
    'from ours import cgroup\nhome = cgroup.open_home({"cgroup_dir": sys.argv[2]})\n'
  return execFileSync(process.env['SANDBOX_PYTHON'] ?? 'python3', ['-B', '-c', start + code, core, mounted], {
    encoding: 'utf8',
  })
}

describe('core/cgroup.py', () => {
  it('says which file the kernel does not have, and leaves no group behind', () => {
    expect(inPython('print(cgroup.probe(home, False), os.listdir(home))')).toBe("('memory.max', 2) []\n")
  })

  it('says that no group can be made at all', () => {
    mkdirSync(path.join(mounted, 'probe'))
    expect(inPython('print(cgroup.probe(home, False))')).toBe("('mkdir', 17)\n")
  })

  it('tries nothing where there is no place for groups', () => {
    expect(inPython('print(cgroup.probe(-1, False), cgroup.Groups(-1).make({"sandbox": 1}))')).toBe('None None\n')
  })

  const LIMIT = 1000
  it.each([
    ['nothing was ended', 'oom 3\noom_kill 0\n', 'None'],
    ['what the container’s limit ended', 'oom 0\noom_kill 2\n', 'None'],
    ['its own limit ended it', 'low 0\noom 1\noom_kill 2\n', '1500'],
  ])('tells by the counts of a group that %s', (_, events, found) => {
    const folder = group('7', { 'memory.events': events, 'memory.peak': '1600\n', 'memory.current': '100\n' })
    writeFileSync(path.join(folder, 'memory.max'), '')
    const park = `one = cgroup.Group(home, "7")\none.park(${LIMIT})\n`
    expect(inPython(`${park}print(one.out_of_memory(${LIMIT}))`)).toBe(`${found}\n`)
    // Of what comes beyond that which it had when it was parked.
    expect(readFileSync(path.join(folder, 'memory.max'), 'utf8')).toBe('1100')
  })

  it('was at its limit where the kernel keeps no peak', () => {
    const folder = group('7', { 'memory.events': 'oom 1\noom_kill 1\n', 'memory.max': '' })
    expect(inPython(`print(cgroup.Group(home, "7").out_of_memory(${LIMIT}))`)).toBe(`${LIMIT}\n`)
    expect(readdirSync(folder)).not.toContain('memory.peak')
  })

  it('tries again to remove a group that the kernel still holds', () => {
    mkdirSync(path.join(mounted, '7', 'held'), { recursive: true })
    const code = 'all = cgroup.Groups(home)\nall.remove(7)\nprint(os.listdir(home))\nos.rmdir("7/held", dir_fd=home)\n'
    expect(inPython(`${code}all.remove(8)\nprint(os.listdir(home))`)).toBe("['7']\n[]\n")
  })
})
