// Makes docker/seccomp.json: the container engine's default profile and, beyond it, the calls with which an unprivileged
// worker makes sandboxes of the namespaces tier.
//
//     node docker/make-seccomp.mjs DEFAULT.json > docker/seccomp.json
//
// DEFAULT.json is profiles/seccomp/default.json of the moby sources (Apache-2.0); Debian ships it in the package
// golang-github-docker-docker-dev. Rules of the default profile stay as they are: take a newer one when the engine does.
import { readFileSync } from 'node:fs'

/** What is allowed in addition, and what for. The kernel still asks for the capability, which a user namespace gives. */
export const ADDED = new Map([
  ['unshare', 'a user namespace, and below it those for mounts, processes, network, IPC and host name'],
  [
    'clone',
    'the supervisor of a sandbox, born into its namespaces; the default profile allows it without their flags only',
  ],
  ['setns', 'the guest is forked by a process outside and moves into the namespaces of its sandbox'],
  ['mount', 'the read-only file tree, the tmpfs of the workspace and /proc'],
  ['mount_setattr', 'a bind mount with all below it becomes read-only, nosuid and nodev'],
  ['pivot_root', "the tree becomes the root, and the container's own root goes"],
  ['umount2', "the container's own root goes"],
  ['sethostname', 'inside, the machine is called sandbox'],
])

const COMMENT = 'python-execute-worker: namespaces tier without privileges'

/** The default profile with one more rule. Errors: a profile that allows what is not on its list would hide a mistake. */
export function withNamespaces(profile) {
  if (profile.defaultAction !== 'SCMP_ACT_ERRNO') {
    throw new Error(`expected a profile that refuses by default, not ${profile.defaultAction}`)
  }
  return {
    ...profile,
    syscalls: [...profile.syscalls, { names: [...ADDED.keys()], action: 'SCMP_ACT_ALLOW', comment: COMMENT }],
  }
}

if (process.argv[1] === import.meta.filename) {
  const [, , file] = process.argv
  if (file === undefined) {
    process.stderr.write('usage: node docker/make-seccomp.mjs DEFAULT.json > docker/seccomp.json\n')
    process.exit(64)
  }
  const profile = withNamespaces(JSON.parse(readFileSync(file, 'utf8')))
  process.stdout.write(`${JSON.stringify(profile, null, 2)}\n`)
}
