import { fileURLToPath } from 'node:url'
import { PodMonitor } from '@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1/PodMonitor'
import { PrometheusRule } from '@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1/PrometheusRule'
import { DaemonSet } from 'kubernetes-models/apps/v1/DaemonSet'
import { StatefulSet } from 'kubernetes-models/apps/v1/StatefulSet'
import { HorizontalPodAutoscaler } from 'kubernetes-models/autoscaling/v2/HorizontalPodAutoscaler'
import { NetworkPolicy } from 'kubernetes-models/networking.k8s.io/v1/NetworkPolicy'
import { RuntimeClass } from 'kubernetes-models/node.k8s.io/v1/RuntimeClass'
import { PodDisruptionBudget } from 'kubernetes-models/policy/v1/PodDisruptionBudget'
import { ConfigMap } from 'kubernetes-models/v1/ConfigMap'
import { Namespace } from 'kubernetes-models/v1/Namespace'
import { Secret } from 'kubernetes-models/v1/Secret'
import { Service } from 'kubernetes-models/v1/Service'
import { ServiceAccount } from 'kubernetes-models/v1/ServiceAccount'
import ts from 'typescript'
import type { Manifest } from './kustomize.js'

/** Classes that are made from Kubernetes' own schemas, and hold them. */
const MODELS = [
  ConfigMap,
  DaemonSet,
  HorizontalPodAutoscaler,
  Namespace,
  NetworkPolicy,
  PodDisruptionBudget,
  PodMonitor,
  PrometheusRule,
  RuntimeClass,
  Secret,
  Service,
  ServiceAccount,
  StatefulSet,
] as unknown as readonly (new (
  object: Manifest,
) => Manifest & { validate(): void })[]

/**
 * What the schemas say against the objects, empty where nothing. They are asked twice: the schema itself knows ranges and patterns but lets
 * fields pass that no version of Kubernetes has; the types that are made from it, and the compiler, find those.
 */
export function faultsOf(objects: readonly Manifest[]): string[] {
  return [...objects.flatMap(schemaFaults), ...typeFaults(objects)]
}

function schemaFaults(object: Manifest): string[] {
  const { apiVersion, kind, metadata } = object
  const Model = MODELS.find(({ name }) => name === kind)
  if (Model === undefined) return [`${kind}: no schema is known`]
  try {
    const made = new Model(object)
    made.validate()
    return made.apiVersion === apiVersion ? [] : [`${kind}: it is of ${made.apiVersion}, not ${apiVersion}`]
  } catch (error) {
    return [`${kind} ${metadata.name}: ${(error as Error).message}`]
  }
}

function typeFaults(objects: readonly Manifest[]): string[] {
  const name = fileURLToPath(new URL('manifests.ts', import.meta.url)) // is not there: its text is what follows
  const text = objects
    .map(({ apiVersion, ...rest }, index) => {
      const crd = rest.kind === 'PodMonitor' || rest.kind === 'PrometheusRule'
      const from = `${crd ? '@kubernetes-models/prometheus-operator' : 'kubernetes-models'}/${apiVersion}/${rest.kind}`
      const value = JSON.stringify({ apiVersion, ...rest }, null, 1)
      return `import type { I${rest.kind} as Kind${index} } from '${from}'\nexport const object${index}: Kind${index} = ${value}\n`
    })
    .join('')
  const options: ts.CompilerOptions = {
    strict: true,
    noEmit: true,
    skipLibCheck: true,
    module: ts.ModuleKind.NodeNext,
    target: ts.ScriptTarget.ES2023,
    types: [],
  }
  const host = ts.createCompilerHost(options)
  const { getSourceFile, fileExists } = host
  host.fileExists = file => file === name || fileExists(file)
  host.getSourceFile = (file, ...rest) =>
    file === name ? ts.createSourceFile(file, text, ts.ScriptTarget.ES2023, true) : getSourceFile(file, ...rest)
  const program = ts.createProgram([name], options, host)
  return [...program.getSemanticDiagnostics(), ...program.getSyntacticDiagnostics()].map(({ start, messageText }) => {
    const line = text.slice(0, start).split('\n').at(-1)?.trim() ?? ''
    return `${line}${text.slice(start).split('\n')[0]}: ${ts.flattenDiagnosticMessageText(messageText, ' ')}`
  })
}
