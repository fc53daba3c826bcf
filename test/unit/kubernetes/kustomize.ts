import { existsSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { parse, parseAllDocuments } from 'yaml'
import { z } from 'zod'

/** A Kubernetes object, as far as kustomize looks into one. */
export interface Manifest {
  readonly apiVersion: string
  readonly kind: string
  readonly metadata: { name: string; namespace?: string; labels?: Record<string, string> }
  readonly [field: string]: unknown
}

const Manifests = z.array(
  z.looseObject({
    apiVersion: z.string(),
    kind: z.string(),
    metadata: z.looseObject({ name: z.string(), namespace: z.string().optional() }),
  }),
)

/** All of kustomize that docker/kubernetes uses. Strict, so that nothing else of a file is passed over in silence. */
const Kustomization = z.strictObject({
  apiVersion: z.enum(['kustomize.config.k8s.io/v1beta1', 'kustomize.config.k8s.io/v1alpha1']),
  kind: z.enum(['Kustomization', 'Component']),
  namespace: z.string().optional(),
  resources: z.array(z.string()).default([]),
  components: z.array(z.string()).default([]),
  configMapGenerator: z
    .array(
      z.strictObject({
        name: z.string(),
        namespace: z.string().optional(),
        behavior: z.literal('merge').optional(),
        envs: z.array(z.string()).default([]),
        literals: z.array(z.string()).default([]),
        files: z.array(z.string()).default([]),
      }),
    )
    .default([]),
  patches: z
    .array(
      z.union([
        z.strictObject({ path: z.string() }),
        z.strictObject({ target: z.strictObject({ kind: z.string(), name: z.string() }), patch: z.string() }),
      ]),
    )
    .default([]),
  images: z.array(z.strictObject({ name: z.string(), newTag: z.string() })).default([]),
})

const CLUSTER_SCOPED = ['Namespace', 'RuntimeClass']

/** Objects of a YAML file. Errors: what is no Kubernetes object. */
export function manifestsOf(file: string): Manifest[] {
  const documents = parseAllDocuments(readFileSync(file, 'utf8')).map(document => document.toJS() as unknown)
  return Manifests.parse(documents) as Manifest[]
}

/**
 * What `kubectl kustomize FOLDER` gives, but for the hash in the name of a generated ConfigMap, and for the order. `more` are components
 * besides those that the folder names. Errors: a file that is not there, a patch or merge without a target.
 */
export function render(folder: string, more: readonly string[] = []): Manifest[] {
  return withKustomization(folder, [], more)
}

function withKustomization(folder: string, given: Manifest[], more: readonly string[]): Manifest[] {
  const settings = Kustomization.parse(parse(readFileSync(path.join(folder, 'kustomization.yaml'), 'utf8')))
  let objects = [...given]
  for (const resource of settings.resources) {
    const place = path.join(folder, resource)
    objects.push(...(existsSync(path.join(place, 'kustomization.yaml')) ? render(place) : manifestsOf(place)))
  }
  for (const { name, namespace, behavior, envs, literals, files } of settings.configMapGenerator) {
    const lines = [...envs.flatMap(file => readFileSync(path.join(folder, file), 'utf8').split('\n')), ...literals]
    const settings = lines.filter(line => /^[^#\s]/.test(line)).map(line => line.split(/=(.*)/s).slice(0, 2))
    const texts = files.map(file => [file, readFileSync(path.join(folder, file), 'utf8')])
    const metadata = namespace === undefined ? { name } : { name, namespace }
    const map = { apiVersion: 'v1', kind: 'ConfigMap', metadata, data: Object.fromEntries([...settings, ...texts]) }
    if (behavior === 'merge') objects = patched(objects, map)
    else objects.push(map)
  }
  for (const component of [...settings.components, ...more]) {
    objects = withKustomization(path.join(folder, component), objects, [])
  }
  for (const patch of settings.patches) {
    if ('path' in patch) {
      for (const change of manifestsOf(path.join(folder, patch.path))) objects = patched(objects, change)
    } else {
      const { kind, name } = patch.target
      objects = patched(objects, { apiVersion: '', ...withoutField(patch.patch), kind, metadata: { name } })
    }
  }
  if (settings.namespace !== undefined) {
    for (const object of objects) {
      if (!CLUSTER_SCOPED.includes(object.kind)) object.metadata.namespace = settings.namespace
    }
  }
  return settings.images.reduce(
    (all, { name, newTag }) =>
      all.map(object =>
        JSON.parse(JSON.stringify(object).replaceAll(`"image":"${name}"`, `"image":"${name}:${newTag}"`)),
      ),
    objects,
  )
}

/** A JSON patch that removes one field, as a strategic one. */
function withoutField(patch: string): object {
  const [step] = z
    .tuple([z.strictObject({ op: z.literal('remove'), path: z.string().startsWith('/') })])
    .parse(parse(patch))
  const fields = step.path.slice(1).split('/')
  return fields.reduceRight<unknown>((inner, field) => ({ [field]: inner }), null) as object
}

function patched(objects: Manifest[], change: Manifest): Manifest[] {
  const isTarget = ({ kind, metadata }: Manifest) => kind === change.kind && metadata.name === change.metadata.name
  if (objects.filter(isTarget).length !== 1) throw new Error(`${change.kind} ${change.metadata.name} is not there once`)
  const { apiVersion: _, ...fields } = change
  return objects.map(object => (isTarget(object) ? (merged(object, fields) as Manifest) : object))
}

/** A strategic merge: null removes, lists of named things are merged by name, other lists are replaced. */
function merged(value: unknown, change: unknown): unknown {
  if (Array.isArray(value) && Array.isArray(change) && change.every(isNamed)) {
    const added = change.filter(({ name }) => !value.some(item => isNamed(item) && item.name === name))
    const kept = value.map(item => merged(item, change.find(({ name }) => isNamed(item) && item.name === name) ?? item))
    return [...kept, ...added]
  }
  if (!isObject(value) || !isObject(change)) return change
  const result = { ...value }
  for (const [field, inner] of Object.entries(change)) {
    if (inner === null) delete result[field]
    else result[field] = field in result ? merged(result[field], inner) : inner
  }
  return result
}

const isObject = (value: unknown): value is Record<string, unknown> =>
  typeof value === 'object' && value !== null && !Array.isArray(value)
const isNamed = (value: unknown): value is { name: string } => isObject(value) && typeof value['name'] === 'string'
