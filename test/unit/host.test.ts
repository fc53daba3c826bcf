import { describe, expect, test } from 'vitest'
import { readHostFacts } from '../../src/host.js'

const GIB = 1024 ** 3
const MIB = 1024 ** 2

/** A machine of 8 CPUs and 16 GiB, with these files and no others. */
function hostWith(files: Record<string, string>) {
  return readHostFacts(
    file => files[file] ?? null,
    () => 8,
    () => 16 * GIB,
  )
}

const V2_MOUNT = '31 23 0:28 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n'
const V1_MOUNTS =
  '32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n' +
  '33 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n'

describe('readHostFacts without limits', () => {
  test('gives the whole machine where no cgroup file is readable', () => {
    expect(hostWith({})).toEqual({ cpus: 8, memoryBytes: 16 * GIB })
  })

  test('gives this machine at least one CPU and some memory', () => {
    const facts = readHostFacts()
    expect(facts.cpus).toBeGreaterThan(0)
    expect(facts.memoryBytes).toBeGreaterThan(64 * MIB)
  })

  test('counts the CPUs of the affinity mask', () => {
    expect(
      hostWith({ '/proc/self/status': 'Name:\tnode\nCpus_allowed_list:\t0-1,5\nMems_allowed_list:\t0\n' }).cpus,
    ).toBe(3)
  })

  test.each(['', 'x-y', '3-1', '0,,1', '0-'])('ignores the affinity list %j', list => {
    expect(hostWith({ '/proc/self/status': `Cpus_allowed_list:\t${list}\n` }).cpus).toBe(8)
  })
})

describe('readHostFacts under cgroup v2', () => {
  const inSlice = { '/proc/self/cgroup': '0::/kube/pod7\n', '/proc/self/mountinfo': V2_MOUNT }

  test('takes quota and memory of its own cgroup', () => {
    const files = {
      ...inSlice,
      '/sys/fs/cgroup/kube/pod7/cpu.max': '150000 100000\n',
      '/sys/fs/cgroup/kube/pod7/memory.max': `${GIB}\n`,
    }
    expect(hostWith(files)).toEqual({ cpus: 1.5, memoryBytes: GIB })
  })

  test('takes a parent that allows less than the own cgroup', () => {
    const files = {
      ...inSlice,
      '/sys/fs/cgroup/kube/pod7/cpu.max': 'max 100000\n',
      '/sys/fs/cgroup/kube/pod7/memory.max': 'max\n',
      '/sys/fs/cgroup/kube/cpu.max': '50000 100000\n',
      '/sys/fs/cgroup/kube/memory.max': `${2 * GIB}\n`,
      '/sys/fs/cgroup/memory.max': `${3 * GIB}\n`,
    }
    expect(hostWith(files)).toEqual({ cpus: 0.5, memoryBytes: 2 * GIB })
  })

  test('reads the mount point when its cgroup is the root of a namespace', () => {
    const files = { ...inSlice, '/proc/self/cgroup': '0::/\n', '/sys/fs/cgroup/memory.max': `${GIB}\n` }
    expect(hostWith(files).memoryBytes).toBe(GIB)
  })

  test('reads the mount point when its cgroup lies outside of its namespace', () => {
    const files = { ...inSlice, '/proc/self/cgroup': '0::/../other\n', '/sys/fs/cgroup/memory.max': `${GIB}\n` }
    expect(hostWith(files).memoryBytes).toBe(GIB)
  })

  test('uses the usual mount when mountinfo is not readable', () => {
    const files = { '/proc/self/cgroup': '0::/a\n', '/sys/fs/cgroup/a/cpu.max': '200000 100000\n' }
    expect(hostWith(files).cpus).toBe(2)
  })
})

describe('readHostFacts under cgroup v1', () => {
  const own = {
    '/proc/self/cgroup': '4:memory:/docker/abc\n1:cpu,cpuacct:/docker/abc\n9:name=systemd:/\n',
    '/proc/self/mountinfo': V1_MOUNTS,
  }

  test('takes quota over period, and the memory limit', () => {
    const files = {
      ...own,
      '/sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_quota_us': '300000\n',
      '/sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_period_us': '100000\n',
      '/sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes': `${4 * GIB}\n`,
    }
    expect(hostWith(files)).toEqual({ cpus: 3, memoryBytes: 4 * GIB })
  })

  test('knows -1 and the huge number as "no limit"', () => {
    const files = {
      ...own,
      '/sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_quota_us': '-1\n',
      '/sys/fs/cgroup/cpu,cpuacct/docker/abc/cpu.cfs_period_us': '100000\n',
      '/sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes': '9223372036854771712\n',
    }
    expect(hostWith(files)).toEqual({ cpus: 8, memoryBytes: 16 * GIB })
  })

  test('cuts the root of the mount off the path, as in a container without a cgroup namespace', () => {
    const files = {
      ...own,
      '/proc/self/mountinfo': '33 31 0:32 /docker/abc /sys/fs/cgroup/memory ro master:1 - cgroup cgroup rw,memory\n',
      '/sys/fs/cgroup/memory/memory.limit_in_bytes': `${GIB}\n`,
    }
    expect(hostWith(files).memoryBytes).toBe(GIB)
  })

  test('takes the least where v1 and v2 are mounted side by side', () => {
    const files = {
      '/proc/self/cgroup': '4:memory:/a\n0::/b\n',
      '/proc/self/mountinfo': `${V1_MOUNTS}41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n`,
      '/sys/fs/cgroup/memory/a/memory.limit_in_bytes': `${2 * GIB}\n`,
      '/sys/fs/cgroup/unified/b/memory.max': `${GIB}\n`,
    }
    expect(hostWith(files).memoryBytes).toBe(GIB)
  })
})

describe('readHostFacts with nonsense in its files', () => {
  test.each(['', 'abc', '-5', '0', '1e9', '0 0', '100000', 'max', '100000 0', '\u0000'])('ignores %j', content => {
    const files = {
      '/proc/self/cgroup': `${content}\n4:memory:/\n1:cpu:/\n0::/\n`,
      '/proc/self/mountinfo': `${content}\n - \n${V1_MOUNTS}`,
      '/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us': content,
      '/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us': '0',
      '/sys/fs/cgroup/memory/memory.limit_in_bytes': content === '100000' ? 'x' : content,
      '/sys/fs/cgroup/cpu.max': content,
    }
    expect(hostWith(files)).toEqual({ cpus: 8, memoryBytes: 16 * GIB })
  })
})
