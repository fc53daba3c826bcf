import { readdirSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { z } from 'zod'
import { loadConfig, VARIABLES } from '../../src/config.js'
import { type Manifest, manifestsOf, render } from './kubernetes/kustomize.js'
import { faultsOf } from './kubernetes/models.js'
import { configOf, folder, Names, only, root, Selector, setOf, settingsOf, variants } from './kubernetes/variants.js'

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
        to: [
          {
            namespaceSelector: { matchLabels: { 'kubernetes.io/metadata.name': 'kube-system' } },
            podSelector: { matchLabels: { 'k8s-app': 'kube-dns' } },
          },
          { ipBlock: { cidr: '169.254.20.10/32' } }, // where NodeLocal DNSCache listens
        ],
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

  test('names every image with the version as its tag', () => {
    const { version } = JSON.parse(readFileSync(path.join(root, 'package.json'), 'utf8')) as { version: string }
    const images = [...JSON.stringify(objects).matchAll(/"image":"([^"]+)"/g)].map(match => match[1])
    expect(images.length).toBe(name === 'userns' ? 2 : 1)
    expect(new Set(images)).toEqual(new Set([`python-execute-worker:${version}`]))
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
  })
})

/** Of docker/kubernetes/test.sh: what kubectl makes of each variant. */
const rendered = process.env['RENDERED']
if (rendered !== undefined) {
  test.each(variants)('kubectl renders the %s variant as it was looked at here', (name, objects) => {
    const byName = (all: readonly Manifest[]) =>
      new Map(all.map(object => [`${object.kind} ${object.metadata.name}`, object]))
    const file = path.join(rendered, `${name}.yaml`)
    const text = JSON.stringify(manifestsOf(file)).replaceAll(/"(python-execute(?:-seccomp)?)-[0-9a-z]{10}"/g, '"$1"')
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
