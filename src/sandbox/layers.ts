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
  | 'landlock'
  | 'seccomp'
  | 'uid'
  | 'rlimits'
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
      return [`${layer} namespace`]
    case 'landlock':
    case 'seccomp':
    case 'uid':
    case 'rlimits':
    case 'watch':
      return [layer]
  }
}

/** What each tier puts between the code and the machine, as far as it is in force here. `off`: what a test has left out. */
export function layersOf(tier: TierName, up: Up, off: readonly LayerSwitch[] = []): Layer[] {
  const names = off.flatMap(switched)
  return layersInForce(tier, up).map(layer =>
    names.includes(layer.name) ? { name: layer.name, inForce: false, why: 'switched off' } : layer,
  )
}

function layersInForce(tier: TierName, up: Up): Layer[] {
  const landlock: Layer =
    up.landlock_abi === 0
      ? {
          name: 'landlock',
          inForce: false,
          why: 'the kernel has no Landlock, or it is switched off (lsm= on its command line)',
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
    { name: 'watch', inForce: true, why: 'memory is looked at every 20 ms; there is no cgroup' },
    up.uid_base === null
      ? { name: 'uid', inForce: false, why: 'not root with CAP_SETUID: sandboxes have the uid of the worker' }
      : { name: 'uid', inForce: true },
  ]
  if (tier === 'landlock') {
    return [
      { name: 'namespaces', inForce: false, why: 'this is the landlock tier: file names of the host can be stat’ed' },
      ...shared,
    ]
  }
  return [
    ...['user', 'pid', 'mount', 'net', 'ipc', 'uts'].map(name => ({ name: `${name} namespace`, inForce: true })),
    { name: 'root of its own', inForce: true },
    up.proc
      ? { name: '/proc of its own', inForce: true }
      : { name: '/proc of its own', inForce: false, why: `refused with errno ${up.proc_errno}: /proc is masked here` },
    ...shared,
  ]
}
