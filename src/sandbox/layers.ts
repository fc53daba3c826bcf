import { constants } from 'node:os'
import { getSystemErrorName } from 'node:util'
import type { Layer, TierName } from '../outcome.js'
import type { Up } from './template.js'

/** The layers that a test can leave out, by the names that the Python side has for them. */
export type LayerSwitch =
  | 'user'
  | 'pid'
  | 'mount'
  | 'net'
  | 'ipc'
  | 'uts'
  | 'cgroup'
  | 'landlock'
  | 'seccomp'
  | 'uid'
  | 'rlimits'
  | 'cgroup_limits'
  | 'watch'

/** What goes with a switch, by the names that people read. */
function switched(layer: LayerSwitch): string[] {
  switch (layer) {
    case 'mount':
      return ['mount namespace', 'root of its own', '/proc of its own']
    case 'pid':
      return ['pid namespace', '/proc of its own']
    case 'user':
    case 'net':
    case 'ipc':
    case 'uts':
    case 'cgroup':
      return [`${layer} namespace`]
    case 'landlock':
    case 'seccomp':
    case 'uid':
    case 'rlimits':
    case 'watch':
      return [layer]
    case 'cgroup_limits':
      return ['cgroup']
  }
}

/** What keeps a better tier from being had: the step that failed, and errno 0 where it was not the kernel that refused. */
export interface Refusal {
  readonly step?: string
  readonly errno?: number
}

/**
 * What each tier puts between the code and the machine, as far as it is in force here.
 *
 * off: what a test has left out. refusal: of the namespaces tier, where that was tried first.
 */
export function layersOf(tier: TierName, up: Up, off: readonly LayerSwitch[] = [], refusal?: Refusal): Layer[] {
  const names = off.flatMap(switched)
  return layersInForce(tier, up, refusal).map(layer =>
    names.includes(layer.name) ? { name: layer.name, inForce: false, why: 'switched off' } : layer,
  )
}

function layersInForce(tier: TierName, up: Up, refusal?: Refusal): Layer[] {
  const landlock: Layer =
    up.landlock_abi === 0
      ? {
          name: 'landlock',
          inForce: false,
          why: landlockRefused(up.landlock_errno),
        }
      : up.landlock_missing.length === 0
        ? { name: 'landlock', inForce: true }
        : {
            name: 'landlock',
            inForce: true,
            why: `ABI ${up.landlock_abi}, without: ${up.landlock_missing.join(', ')}`,
          }
  const shared: Layer[] = [
    { name: 'seccomp', inForce: true },
    landlock,
    tier === 'landlock' && up.uid_base === null
      ? { name: 'rlimits', inForce: true, why: 'processes and threads by the watch alone: the uid is shared' }
      : { name: 'rlimits', inForce: true },
    up.cgroup === null
      ? { name: 'cgroup', inForce: true }
      : {
          name: 'cgroup',
          inForce: false,
          why: `${up.cgroup.step}${up.cgroup.errno > 0 ? ` refused with ${errnoText(up.cgroup.errno)}` : ''}`,
        },
    up.cgroup === null
      ? { name: 'watch', inForce: true }
      : { name: 'watch', inForce: true, why: 'memory is looked at every 20 ms while code runs; there is no cgroup' },
    up.uid_base === null
      ? {
          name: 'uid',
          inForce: false,
          why: `${up.uid_errno === 0 ? 'only a root worker has some' : `refused with ${errnoText(up.uid_errno)}`}: sandboxes have the uid of the worker`,
        }
      : { name: 'uid', inForce: true },
    { name: 'no capabilities, no_new_privs', inForce: true },
    up.oom_errno === 0
      ? { name: 'oom score', inForce: true }
      : {
          name: 'oom score',
          inForce: false,
          why: `/proc/self/oom_score_adj: ${errnoText(up.oom_errno)}: when memory is short the kernel may end the worker first`,
        },
  ]
  if (tier === 'landlock') {
    return [{ name: 'namespaces', inForce: false, why: namespacesAbsent(refusal) }, ...shared]
  }
  return [
    ...['user', 'pid', 'mount', 'net', 'ipc', 'uts'].map(name => ({ name: `${name} namespace`, inForce: true })),
    up.cgroup_errno === 0
      ? { name: 'cgroup namespace', inForce: true }
      : {
          name: 'cgroup namespace',
          inForce: false,
          why: `refused with ${errnoText(up.cgroup_errno)}: the names of the worker’s control groups can be seen`,
        },
    { name: 'root of its own', inForce: true },
    up.proc
      ? { name: '/proc of its own', inForce: true }
      : {
          name: '/proc of its own',
          inForce: false,
          why: `refused with ${errnoText(up.proc_errno)}: /proc is masked here`,
        },
    ...shared,
  ]
}

function namespacesAbsent(refusal?: Refusal): string {
  const cause =
    refusal === undefined
      ? 'not asked for'
      : `${refusal.step ?? 'start'} failed${refusal.errno ? ` with ${errnoText(refusal.errno)}` : ''}`
  return `this is the landlock tier: ${cause}; file names of the host can be stat’ed`
}

function landlockRefused(errno: number): string {
  switch (errno) {
    case constants.errno.ENOSYS:
      return `${errnoText(errno)}: the kernel has no Landlock, or the container’s seccomp profile hides it`
    case constants.errno.EOPNOTSUPP:
      return `${errnoText(errno)}: Landlock was left out when the kernel was started`
    default:
      return `refused with ${errnoText(errno)}`
  }
}

function errnoText(errno: number): string {
  return errno > 0 ? `errno ${errno} (${getSystemErrorName(-errno)})` : 'no errno'
}

/**
 * What a person can do about a layer that is absent, or weaker than it could be; null where there is nothing, or it is whole. `fellBack`: the
 * namespaces tier was tried and is not available.
 */
export function layerRemedy(layer: Layer, fellBack = false): string | null {
  if (layer.inForce && layer.why === undefined) return null
  switch (layer.name) {
    case 'namespaces':
      return fellBack
        ? 'do what stands above below “tier namespaces: not available”. SANDBOX_TIER changes nothing: that tier was tried'
        : 'set SANDBOX_TIER=auto. The landlock tier is in use because SANDBOX_TIER=landlock asks for it'
    case '/proc of its own':
      return (
        'docker run --security-opt systempaths=unconfined; in Kubernetes procMount: Unmasked with hostUsers: false ' +
        '(the container itself then sees more of the host’s /proc and /sys)'
      )
    case 'landlock':
      return layer.inForce
        ? 'a newer kernel: TCP needs Linux 6.7 (ABI 4), device ioctls 6.10 (ABI 5), signals and abstract sockets 6.12 (ABI 6)'
        : 'Linux 5.13 or later with landlock in /sys/kernel/security/lsm (kernel command line lsm=landlock,…); in a container ' +
            'also a seccomp profile that lets landlock_create_ruleset through: docker run --security-opt seccomp=docker/seccomp.json; ' +
            'in Kubernetes seccompProfile of type Localhost'
    case 'uid':
      return (
        'run the worker as root with CAP_SETUID and CAP_SETGID, in the namespaces tier CAP_SYS_ADMIN as well: docker run --user 0 ' +
        '--cap-add; in Kubernetes runAsUser: 0 with capabilities.add, and hostUsers: false, so that root there is not the host’s; ' +
        'with EINVAL, map 4 096 uids and gids more into the user namespace that the worker is in (/etc/subuid, /etc/subgid)'
      )
    case 'rlimits':
      return 'a uid of its own for each sandbox (see uid), or the namespaces tier, where processes are counted for each sandbox'
    case 'oom score':
      return 'a /proc that can be written, as container engines give it by default'
    case 'cgroup':
      return (
        'a cgroup v2 hierarchy with a memory controller in which the worker may make groups, and nobody else in its own: Docker 28 or ' +
        'later: docker run --cgroupns private --security-opt writable-cgroups=true, as root there; systemd: Delegate=yes; in ' +
        'Kubernetes nothing yet that a pod could ask for'
      )
    case 'watch':
      return 'a limit of the container as the last line: docker run --memory; in Kubernetes resources.limits.memory'
    default:
      return null
  }
}
