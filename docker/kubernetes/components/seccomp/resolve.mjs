// Makes python-execute.json beside it from docker/seccomp.json: the same filter, for a container without capabilities.
//
//     node docker/kubernetes/components/seccomp/resolve.mjs > docker/kubernetes/components/seccomp/python-execute.json
//
// Docker's format says of a rule for which capabilities, architectures and kernels it holds. A kubelet hands the file to the container
// runtime, and containerd reads it as the OCI's format, which has no such conditions: a rule for CAP_SYS_ADMIN, and with it bpf or
// ptrace of others, would then hold for everybody, and no architecture but the node's own would be known.
import { readFileSync } from 'node:fs'

/** Those of the nodes, with what their kernels run besides. Calls that one does not have are skipped by the runtime. */
const ARCHITECTURES = ['SCMP_ARCH_X86_64', 'SCMP_ARCH_AARCH64']
const ARCH_NAMES = ['amd64', 'x86', 'x32', 'arm64', 'arm']
/** A condition of another kind is not to be dropped unseen. */
const CONDITIONS = ['caps', 'arches', 'minKernel']

/** The profile in the OCI's format. Errors: a condition that it does not know. */
export function resolved({ defaultAction, defaultErrnoRet, archMap, syscalls }) {
  return {
    defaultAction,
    defaultErrnoRet,
    architectures: archMap
      .filter(({ architecture }) => ARCHITECTURES.includes(architecture))
      .flatMap(({ architecture, subArchitectures }) => [architecture, ...(subArchitectures ?? [])]),
    syscalls: syscalls
      .filter(holds)
      .map(({ names, action, errnoRet, args }) => ({ names, action, errnoRet, args: args?.length ? args : undefined })),
  }
}

/** No capability is there; the kernel is at least 5.12, which every sandbox of the namespaces tier needs. */
function holds({ includes, excludes }) {
  for (const condition of Object.keys({ ...includes, ...excludes })) {
    if (!CONDITIONS.includes(condition)) throw new Error(`a rule has a condition that is not known: ${condition}`)
  }
  if (includes?.caps?.length) return false
  const ours = arches => arches.some(arch => ARCH_NAMES.includes(arch))
  if (includes?.arches?.length && !ours(includes.arches)) return false
  return !(excludes?.arches?.length && ours(excludes.arches))
}

if (process.argv[1] === import.meta.filename) {
  const profile = JSON.parse(readFileSync(new URL('../../../seccomp.json', import.meta.url), 'utf8'))
  process.stdout.write(`${JSON.stringify(resolved(profile), null, 2)}\n`)
}
