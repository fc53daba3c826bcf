import { existsSync, readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { z } from 'zod'
import { loadConfig, VARIABLES } from '../../src/config.js'
import { type Manifest, manifestsOf, render } from './kubernetes/kustomize.js'
import { faultsOf } from './kubernetes/models.js'

const root = fileURLToPath(new URL('../../', import.meta.url))
const folder = path.join(root, 'docker/kubernetes')
const OVERLAYS = ['plain', 'userns', 'gvisor']
const COMPONENTS = ['../../components/monitoring', '../../components/autoscaling']
const variants = OVERLAYS.map(name => [name, render(path.join(folder, 'overlays', name), COMPONENTS)] as const)

const Probe = z.object({
  httpGet: z.object({ path: z.string(), port: z.string() }),
  periodSeconds: z.number(),
  failureThreshold: z.number(),
})
const Names = z.record(z.string(), z.string())
const Selector = z.object({ matchLabels: Names })
const Memory = z.templateLiteral([z.number(), 'Mi']).transform(text => Number.parseInt(text, 10))
const Seccomp = z.object({ type: z.string(), localhostProfile: z.string().optional() })
const Container = z.object({
  name: z.literal('worker'),
  image: z.string(),
  envFrom: z.tuple([
    z.object({ configMapRef: z.object({ name: z.string() }) }),
    z.object({ secretRef: z.object({ name: z.string() }) }),
  ]),
  ports: z.tuple([z.object({ name: z.string(), containerPort: z.number() })]),
  startupProbe: Probe,
  livenessProbe: Probe,
  readinessProbe: Probe,
  resources: z.object({ requests: z.object({ memory: Memory }), limits: z.object({ memory: Memory }) }),
  securityContext: z.object({
    allowPrivilegeEscalation: z.boolean(),
    readOnlyRootFilesystem: z.boolean(),
    privileged: z.never().optional(),
    capabilities: z.strictObject({ drop: z.array(z.string()) }),
    seccompProfile: Seccomp.optional(),
    procMount: z.string().optional(),
  }),
  volumeMounts: z.array(z.object({ name: z.string(), mountPath: z.string() })),
})
const Pods = z.object({
  metadata: z.object({ labels: Names }),
  spec: z.object({
    serviceAccountName: z.string(),
    automountServiceAccountToken: z.literal(false),
    hostUsers: z.boolean().optional(),
    runtimeClassName: z.string().optional(),
    terminationGracePeriodSeconds: z.number(),
    securityContext: z.object({
      runAsNonRoot: z.literal(true),
      runAsUser: z.number(),
      runAsGroup: z.number(),
      fsGroup: z.number(),
      seccompProfile: Seccomp,
    }),
    topologySpreadConstraints: z.array(z.object({ labelSelector: Selector })),
    containers: z.tuple([Container]),
    volumes: z.tuple([z.object({ name: z.string(), emptyDir: z.object({ sizeLimit: Memory }) })]),
  }),
})
const Replicas = z.object({
  serviceName: z.string(),
  replicas: z.never().optional(),
  selector: Selector,
  template: Pods,
  volumeClaimTemplates: z.tuple([z.object({ metadata: z.object({ name: z.string() }) })]),
})

function only(objects: readonly Manifest[], kind: string): Manifest {
  const [found, ...more] = objects.filter(object => object.kind === kind)
  if (found === undefined || more.length > 0) throw new Error(`not one ${kind}`)
  return found
}
const setOf = (objects: readonly Manifest[]) => Replicas.parse(only(objects, 'StatefulSet')['spec'])
const settingsOf = (objects: readonly Manifest[]) => Names.parse(only(objects, 'ConfigMap')['data'])
const configOf = (objects: readonly Manifest[], memoryMib: number) =>
  loadConfig(
    { ...settingsOf(objects), FLEXUS_API_KEY: 'fx-some-key' },
    { cpus: 2, memoryBytes: memoryMib * 1024 ** 2 },
    { backend: true },
  )

test('every object is one that Kubernetes and the Prometheus Operator know, with no field that they do not', () => {
  const all = [
    ...variants.flatMap(([, objects]) => objects),
    ...render(path.join(folder, 'overlays/plain')),
    ...manifestsOf(path.join(folder, 'base/secret.example.yaml')),
  ]
  const different = new Map(all.map(object => [JSON.stringify(object), object]))
  expect(faultsOf([...different.values()])).toEqual([])
}, 60_000)

test('an object with a field that is none, and one with a wrong value, are found', () => {
  const text = JSON.stringify(only(render(path.join(folder, 'overlays/plain')), 'StatefulSet'))
  const wrong = text
    .replace('readOnlyRootFilesystem', 'readOnlyRootFileSystem')
    .replace('"RuntimeDefault"', '"Default"')
  expect(faultsOf([JSON.parse(wrong)])).toEqual([
    expect.stringContaining('seccompProfile/type must be equal to one of the allowed values'),
    expect.stringContaining('"type": "Default"'),
    expect.stringContaining('"readOnlyRootFileSystem"'),
  ])
}, 60_000)

test('each file belongs to a kustomization', () => {
  const files = readdirSync(folder, { recursive: true, encoding: 'utf8' }).filter(file => /\.(yaml|env)$/.test(file))
  const kustomizations = files.filter(file => file.endsWith('kustomization.yaml'))
  const used = kustomizations.flatMap(file =>
    [...readFileSync(path.join(folder, file), 'utf8').matchAll(/^ +- (?:path: )?([\w.-]+\.(?:yaml|env))$/gm)].map(
      match => path.join(path.dirname(file), match[1] ?? ''),
    ),
  )
  const apart = [
    'base/secret.example.yaml',
    'components/autoscaling/adapter-rule.yaml',
    'components/monitoring/rules.test.yaml',
  ]
  expect(files.filter(file => !kustomizations.includes(file) && !apart.includes(file)).sort()).toEqual(used.sort())
})

describe.each(variants)('the %s variant', (name, objects) => {
  const set = setOf(objects)
  const pod = set.template.spec
  const [container] = pod.containers
  const settings = settingsOf(objects)
  const memoryMib = container.resources.limits.memory
  const config = configOf(objects, memoryMib)

  test('has all objects in one namespace', () => {
    const namespace = only(objects, 'Namespace').metadata.name
    const elsewhere = objects.filter(
      object => !['Namespace', 'RuntimeClass'].includes(object.kind) && object.metadata.namespace !== namespace,
    )
    expect(elsewhere).toEqual([])
  })

  test('selects its pods by labels that they have', () => {
    const { labels } = set.template.metadata
    const spec = (kind: string) => only(objects, kind)['spec'] as Record<string, unknown>
    const selectors = [
      set.selector.matchLabels,
      Names.parse(spec('Service')['selector']),
      Selector.parse(spec('PodDisruptionBudget')['selector']).matchLabels,
      Selector.parse(spec('NetworkPolicy')['podSelector']).matchLabels,
      Selector.parse(spec('PodMonitor')['selector']).matchLabels,
      ...pod.topologySpreadConstraints.map(({ labelSelector }) => labelSelector.matchLabels),
    ]
    for (const selector of selectors) expect(labels).toEqual(expect.objectContaining(selector))
  })

  test('names objects that are there', () => {
    const [{ configMapRef }, { secretRef }] = container.envFrom
    expect(set.serviceName).toBe(only(objects, 'Service').metadata.name)
    expect(pod.serviceAccountName).toBe(only(objects, 'ServiceAccount').metadata.name)
    expect(configMapRef.name).toBe(only(objects, 'ConfigMap').metadata.name)
    expect(secretRef.name).toBe(manifestsOf(path.join(folder, 'base/secret.example.yaml'))[0]?.metadata.name)
    expect(only(objects, 'HorizontalPodAutoscaler')['spec']).toMatchObject({
      scaleTargetRef: { kind: 'StatefulSet', name: only(objects, 'StatefulSet').metadata.name },
    })
    if (pod.runtimeClassName !== undefined) {
      expect(pod.runtimeClassName).toBe(only(objects, 'RuntimeClass').metadata.name)
    }
  })

  test('sets only variables that the worker knows, to values that it takes without a warning', () => {
    expect(Object.keys(settings).filter(variable => !VARIABLES.includes(variable))).toEqual([])
    expect(config.warnings).toEqual([])
  })

  test('gives a drain and ten seconds more before the kill, and a call of the default wall time its time', () => {
    expect(pod.terminationGracePeriodSeconds).toBe(config.drainMs / 1000 + 10)
    expect(config.drainMs).toBe(config.sandbox.wallMs + 5_000)
  })

  test('gives memory for the worker and for all calls at once, and not less than it asks for', () => {
    const { slots, memoryBytes, workspaceBytes } = config.sandbox
    expect(memoryMib).toBe(512 + slots * (memoryBytes / 1024 ** 2))
    expect(container.resources.requests.memory).toBe(memoryMib)
    const [{ emptyDir }] = pod.volumes
    expect(emptyDir.sizeLimit).toBe((slots + 1) * (workspaceBytes / 1024 ** 2))
  })

  test('probes the port that the worker serves its health on', () => {
    const [port] = container.ports
    expect(port.containerPort).toBe(config.health.port)
    expect(port.containerPort).toBe(loadConfig({}, { cpus: 1, memoryBytes: 2 ** 31 }, { backend: false }).health.port)
    expect(config.health.host).toBe('0.0.0.0')
    const { startupProbe, livenessProbe, readinessProbe } = container
    expect([startupProbe, livenessProbe, readinessProbe].map(({ httpGet }) => httpGet)).toEqual([
      { path: '/livez', port: port.name },
      { path: '/livez', port: port.name },
      { path: '/readyz', port: port.name },
    ])
    expect(only(objects, 'Service')['spec']).toMatchObject({
      ports: [{ name: port.name, port: config.health.port, targetPort: port.name }],
    })
    expect(only(objects, 'PodMonitor')['spec']).toMatchObject({
      podMetricsEndpoints: [{ port: port.name, path: '/metrics' }],
    })
  })

  test('lets in nobody but the health port, and lets out nothing but names and the backend', () => {
    const [service, namespace] = new URL(config.backend?.baseUrl ?? '').hostname.split('.')
    expect(service).toBeDefined()
    const policy = only(objects, 'NetworkPolicy')['spec'] as { egress: unknown[]; ingress: unknown[] }
    expect(policy).toMatchObject({ policyTypes: ['Ingress', 'Egress'] })
    expect(policy.ingress).toMatchObject([{ ports: [{ port: 'health' }] }])
    expect(policy.egress).toMatchObject([
      {
        ports: [
          { port: 53, protocol: 'UDP' },
          { port: 53, protocol: 'TCP' },
        ],
      },
      {
        to: [{ namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': namespace } } }],
        ports: [{ port: Number(new URL(config.backend?.baseUrl ?? '').port) }],
      },
    ])
  })

  test("is the image's user without any right, on a read-only root", () => {
    const dockerfile = readFileSync(path.join(root, 'Dockerfile'), 'utf8')
    const uid = Number(/useradd --system --uid (\d+)/.exec(dockerfile)?.[1])
    const gid = Number(/groupadd --system --gid (\d+)/.exec(dockerfile)?.[1])
    expect(pod.securityContext).toMatchObject({ runAsUser: uid, runAsGroup: gid, fsGroup: gid })
    expect(container.securityContext).toMatchObject({
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ['ALL'] },
    })
    expect(container.image).toBe(`python-execute-worker:${/ARG VERSION=(.*)/.exec(dockerfile)?.[1]}`)
  })

  test('has a volume of its own for the journal, and another one for what may go', () => {
    const mounts = Object.fromEntries(container.volumeMounts.map(({ name, mountPath }) => [mountPath, name]))
    expect(mounts).toEqual({
      [config.stateDir]: set.volumeClaimTemplates[0].metadata.name,
      '/tmp': pod.volumes[0].name,
    })
  })

  test('has the seccomp profile and the least tier that go with it', () => {
    const seccomp = container.securityContext.seccompProfile ?? pod.securityContext.seccompProfile
    const expected = {
      plain: { seccomp: { type: 'RuntimeDefault' }, minTier: 'landlock', hostUsers: undefined, procMount: undefined },
      userns: {
        seccomp: { type: 'Localhost', localhostProfile: 'profiles/python-execute.json' },
        minTier: 'namespaces',
        hostUsers: false,
        procMount: 'Unmasked', // which Kubernetes takes with hostUsers: false alone
      },
      gvisor: {
        seccomp: { type: 'RuntimeDefault' },
        minTier: 'namespaces',
        hostUsers: undefined,
        procMount: undefined,
      },
    }[name]
    expect({
      seccomp,
      minTier: config.sandbox.minTier,
      hostUsers: pod.hostUsers,
      procMount: container.securityContext.procMount,
    }).toEqual(expected)
    if (seccomp.localhostProfile !== undefined) {
      expect(existsSync(path.join(folder, 'seccomp', path.basename(seccomp.localhostProfile)))).toBe(true)
    }
  })
})

/** Of docker/kubernetes/test.sh: what kubectl makes of each variant. */
const rendered = process.env['RENDERED']
if (rendered !== undefined) {
  test.each(variants)('kubectl renders the %s variant as it was looked at here', (name, objects) => {
    const byName = (all: readonly Manifest[]) =>
      new Map(all.map(object => [`${object.kind} ${object.metadata.name}`, object]))
    const file = path.join(rendered, `${name}.yaml`)
    const text = JSON.stringify(manifestsOf(file)).replaceAll(/"python-execute-[0-9a-z]{10}"/g, '"python-execute"')
    expect(byName(JSON.parse(text))).toEqual(byName(objects))
  })
}

test('the autoscaler asks for the metric that the rule of the adapter makes', () => {
  const rule = z
    .object({ rules: z.tuple([z.object({ name: z.object({ as: z.string() }) })]) })
    .parse(parse(readFileSync(path.join(folder, 'components/autoscaling/adapter-rule.yaml'), 'utf8'))).rules[0]
  const autoscaler = only(variants[0]?.[1] ?? [], 'HorizontalPodAutoscaler')
  expect(autoscaler['spec']).toMatchObject({ metrics: [{ pods: { metric: { name: rule.name.as } } }] })
})

test('without the autoscaler there are two replicas', () => {
  expect(only(render(path.join(folder, 'overlays/plain')), 'StatefulSet')['spec']).toMatchObject({ replicas: 2 })
})

describe('docker/kubernetes/seccomp/python-execute.json', () => {
  const read = (file: string) => JSON.parse(readFileSync(path.join(root, file), 'utf8'))
  const profile = read('docker/kubernetes/seccomp/python-execute.json') as {
    syscalls: { names: string[]; action: string; args?: unknown[] }[]
  }

  test('is docker/seccomp.json for a container without capabilities', async () => {
    const { resolved } = await import(new URL('../../docker/kubernetes/seccomp/resolve.mjs', import.meta.url).href)
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
