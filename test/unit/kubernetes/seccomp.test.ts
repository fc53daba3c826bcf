import { readFileSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, test } from 'vitest'
import { z } from 'zod'
import { folder, Names, root, Selector, setOf, variants } from './variants.js'

test('the profile is brought to where the kubelet looks for it, by a pod that the worker is not taken for', () => {
  const objects = variants.find(([name]) => name === 'userns')?.[1] ?? []
  const { securityContext } = setOf(objects).template.spec.containers[0]
  const named = (kind: string) =>
    objects.find(object => object.kind === kind && object.metadata.name.endsWith('-seccomp'))
  const spec = z
    .object({
      selector: Selector,
      template: z.object({
        metadata: z.object({ labels: Names }),
        spec: z.object({
          containers: z.tuple([z.object({ image: z.string(), command: z.array(z.string()) })]),
          volumes: z.tuple([
            z.object({ configMap: z.object({ name: z.string() }) }),
            z.object({ hostPath: z.object({ path: z.literal('/var/lib/kubelet/seccomp') }) }),
          ]),
        }),
      }),
    })
    .parse(named('DaemonSet')?.['spec'])
  const [file, text] = Object.entries(Names.parse(named('ConfigMap')?.['data']))[0] ?? []
  expect(text).toBe(readFileSync(path.join(folder, 'components/seccomp/python-execute.json'), 'utf8'))
  expect(spec.template.spec.volumes[0].configMap.name).toBe(named('ConfigMap')?.metadata.name)
  expect(spec.template.spec.containers[0].command.at(-1)).toContain(
    `mv /seccomp/profiles/${file}.new /seccomp/${securityContext.seccompProfile?.localhostProfile}`,
  )
  expect(spec.template.metadata.labels).toEqual(spec.selector.matchLabels)
  expect(setOf(objects).selector.matchLabels).not.toEqual(spec.selector.matchLabels)
  expect(named('NetworkPolicy')?.['spec']).toEqual({
    podSelector: spec.selector,
    policyTypes: ['Ingress', 'Egress'],
  })
})

describe('docker/kubernetes/components/seccomp/python-execute.json', () => {
  const read = (file: string) => JSON.parse(readFileSync(path.join(root, file), 'utf8'))
  const profile = read('docker/kubernetes/components/seccomp/python-execute.json') as {
    syscalls: { names: string[]; action: string; args?: unknown[] }[]
  }

  test('is docker/seccomp.json for a container without capabilities', async () => {
    const { resolved } = await import(
      new URL('../../../docker/kubernetes/components/seccomp/resolve.mjs', import.meta.url).href
    )
    expect(profile).toEqual(JSON.parse(JSON.stringify(resolved(read('docker/seccomp.json')))))
  })

  test('has no conditions that containerd would not know', () => {
    const fields = new Set(profile.syscalls.flatMap(rule => Object.keys(rule)))
    expect([...fields].sort()).toEqual(['action', 'args', 'errnoRet', 'names'])
  })

  test('allows nothing that takes a capability outside of a user namespace', () => {
    const allowed = profile.syscalls.filter(({ action }) => action === 'SCMP_ACT_ALLOW').flatMap(({ names }) => names)
    const refused = ['bpf', 'perf_event_open', 'open_by_handle_at', 'init_module', 'keyctl', 'kexec_load', 'move_mount']
    expect(refused.filter(call => allowed.includes(call))).toEqual([])
    expect(allowed).toContain('landlock_create_ruleset')
  })
})
