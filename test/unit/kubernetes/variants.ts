import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { z } from 'zod'
import { loadConfig } from '../../../src/config.js'
import { type Manifest, render } from './kustomize.js'

export const root = fileURLToPath(new URL('../../../', import.meta.url))
export const folder = path.join(root, 'docker/kubernetes')
const OVERLAYS = ['plain', 'userns', 'gvisor']
const COMPONENTS = ['../../components/monitoring', '../../components/autoscaling']
export const variants = OVERLAYS.map(name => {
  const components = name === 'userns' ? [...COMPONENTS, '../../components/seccomp'] : COMPONENTS
  return [name, render(path.join(folder, 'overlays', name), components)] as const
})

const Probe = z.object({
  httpGet: z.object({ path: z.string(), port: z.string() }),
  periodSeconds: z.number(),
  failureThreshold: z.number(),
})
export const Names = z.record(z.string(), z.string())
export const Selector = z.object({ matchLabels: Names })
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

/** The worker's own: the profile's way to the nodes has objects of other names. */
export function only(objects: readonly Manifest[], kind: string): Manifest {
  const [found, ...more] = objects.filter(object => object.kind === kind && !object.metadata.name.endsWith('-seccomp'))
  if (found === undefined || more.length > 0) throw new Error(`not one ${kind}`)
  return found
}
export const setOf = (objects: readonly Manifest[]) => Replicas.parse(only(objects, 'StatefulSet')['spec'])
export const settingsOf = (objects: readonly Manifest[]) => Names.parse(only(objects, 'ConfigMap')['data'])
export const configOf = (objects: readonly Manifest[], memoryMib: number) =>
  loadConfig(
    { ...settingsOf(objects), FLEXUS_API_KEY: 'fx-some-key' },
    { cpus: 2, memoryBytes: memoryMib * 1024 ** 2 },
    { backend: true },
  )
