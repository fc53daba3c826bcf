import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { beforeAll, describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { z } from 'zod'
import { STATUSES } from '../../../src/outcome.js'
import { Metrics } from '../../../src/telemetry/metrics.js'
import { IMPAIRMENTS } from '../../../src/telemetry/status.js'

const read = (file: string) => readFileSync(fileURLToPath(new URL(`../../../${file}`, import.meta.url)), 'utf8')

/** By scraping, by the Prometheus Operator, or by the shape of a histogram. */
const LABELS_OF_OTHERS = ['job', 'instance', 'namespace', 'pod', 'le']
/** Of kube-state-metrics. */
const METRICS_OF_OTHERS = ['kube_pod_container_status_restarts_total']

const Target = z.object({ expr: z.string(), legendFormat: z.string() })
const Panel = z.object({
  id: z.number(),
  title: z.string(),
  datasource: z.object({ uid: z.literal('$' + '{datasource}') }).optional(),
  targets: z.array(Target).default([]),
  gridPos: z.object({ x: z.number(), y: z.number(), w: z.number(), h: z.number() }),
})
const Dashboard = z.object({
  templating: z.object({ list: z.array(z.object({ name: z.string(), definition: z.string().default('') })) }),
  panels: z.array(Panel),
})
const Rules = z.object({
  spec: z.object({
    groups: z.array(
      z.object({
        rules: z.array(
          z.object({
            alert: z.string(),
            expr: z.string(),
            labels: z.object({ severity: z.enum(['critical', 'warning']) }),
            annotations: z.object({ summary: z.string() }),
          }),
        ),
      }),
    ),
  }),
})

const { panels, templating } = Dashboard.parse(JSON.parse(read('docker/grafana-dashboard.json')))
const rules = Rules.parse(parse(read('docker/kubernetes/components/monitoring/rules.yaml'))).spec.groups.flatMap(
  group => group.rules,
)
const adapter = z
  .object({ rules: z.array(z.object({ seriesQuery: z.string(), metricsQuery: z.string() })) })
  .parse(parse(read('docker/kubernetes/components/autoscaling/adapter-rule.yaml')))
const targets = panels.flatMap(panel => panel.targets)
const expressions = [
  ...targets.map(({ expr }) => expr),
  ...templating.list.map(({ definition }) => definition),
  ...rules.map(({ expr }) => expr),
  ...adapter.rules.flatMap(({ seriesQuery, metricsQuery }) => [seriesQuery, metricsQuery]),
]
const namedIn = (expression: string) => expression.match(/\b(?:python_execute|nodejs|process|kube)_\w+/g) ?? []

/** Rows of the table below a heading of docs/operations.md. */
function rowsBelow(heading: string): string[][] {
  const section =
    read('docs/operations.md')
      .split('\n## ')
      .find(part => part.startsWith(`${heading}\n`)) ?? ''
  return section
    .split('\n')
    .filter(line => line.startsWith('| `'))
    .map(line => line.split(/(?<!\\)\|/).map(cell => cell.trim()))
}

interface Metric {
  readonly type: string
  readonly labels: Set<string>
}

/** What a worker that has seen everything shows: its metrics by name, and the names of all series. */
const metrics = new Map<string, Metric>()
const series = new Set<string>()
const labelValues = new Set<string>()

beforeAll(async () => {
  const made = new Metrics(() => ({
    state: 'serving',
    reasons: [],
    impairments: ['journal'],
    slots: 4,
    running: 1,
    waiting: 0,
    outbox: { answers: 1, oldestMs: 1_000 },
    journal: { writable: true, unsaved: 0 },
  }))
  made.identify({
    service: 'python_execute',
    version: '1',
    workerId: 'w',
    tier: 'landlock',
    layers: [],
    python: '3',
    node: '20',
  })
  made.sessionEnded('network')
  made.postFailed('refused')
  made.callHandled({
    at: 0,
    status: 'timed_out',
    killedFor: 'wall',
    queueMs: 1,
    refused: null,
    startMs: 1,
    runMs: 1,
    totalMs: 1,
    delivered: false,
    postAttempts: 3,
    deltaBytesDropped: 1,
    dollars: 1,
  })
  const text = await made.text()
  for (const [, name = '', type = ''] of text.matchAll(/^# TYPE (\S+) (\S+)$/gm)) {
    metrics.set(name, { type, labels: new Set() })
  }
  for (const [, name = '', labels = ''] of text.matchAll(/^([a-z_0-9]+)(?:\{(.*)\})? \S+$/gm)) {
    series.add(name)
    const of = metrics.get(name.replace(/_(bucket|sum|count)$/, '')) ?? metrics.get(name)
    for (const [, label = '', value = ''] of labels.matchAll(/(\w+)="([^"]*)"/g)) {
      if (label !== 'le') of?.labels.add(label)
      labelValues.add(`${label}=${value}`)
    }
  }
})

const own = () => [...metrics].filter(([name]) => name.startsWith('python_execute_'))

describe('the impairments as a metric', () => {
  test('have one series each, which is 1 while it is so', () => {
    expect(metrics.get('python_execute_impaired')?.type).toBe('gauge')
    expect(IMPAIRMENTS.filter(what => !labelValues.has(`what=${what}`))).toEqual([])
  })
})

describe('a value of a label', () => {
  /** Of a worker to which nothing has happened. */
  const untouched = new Metrics(() => null).text()

  test.each([
    ['kills_total', 'cause', ['wall', 'cpu', 'memory', 'processes', 'workspace_bytes', 'workspace_files', 'cancelled']],
    ['reconnects_total', 'reason', ['network', 'auth', 'directed', 'forbidden']],
    ['posts_failed_total', 'why', ['gave_up', 'refused', 'forbidden', 'aborted']],
    ['calls_refused_total', 'why', ['busy', 'deadline', 'drain', 'journal']],
    ['call_seconds_count', 'status', STATUSES],
  ] as const)(
    'of %s is there with 0 before anything happens, and in docs/operations.md',
    async (name, label, values) => {
      const lines = (await untouched).split('\n').filter(line => line.startsWith(`python_execute_${name}{`))
      expect(lines.sort()).toEqual(values.map(value => `python_execute_${name}{${label}="${value}"} 0`).sort())
      const row = rowsBelow('Metrics').find(([, cell]) => cell === `\`python_execute_${name}\``)
      const text = row?.at(-2) ?? ''
      if (label !== 'status') expect(values.filter(value => !new RegExp(`\\b${value}\\b`).test(text))).toEqual([])
    },
  )
})

describe('dashboard, alerts and the rule for autoscaling', () => {
  test('name only metrics that the worker has', () => {
    const names = expressions.flatMap(namedIn)
    expect(names.length).toBeGreaterThan(30)
    expect(names.filter(name => !series.has(name) && !METRICS_OF_OTHERS.includes(name))).toEqual([])
  })

  test('name a metric in each expression', () => {
    expect(expressions.filter(text => text !== '' && namedIn(text).length === 0)).toEqual([])
  })

  test('name only labels that there are', () => {
    const known = new Set([...own().flatMap(([, { labels }]) => [...labels]), ...LABELS_OF_OTHERS])
    const grouped = expressions.flatMap(text =>
      [...text.matchAll(/\b(?:by|on) \(([\w, ]+)\)/g)].flatMap(match => (match[1] ?? '').split(', ')),
    )
    const legends = [
      ...targets.map(({ legendFormat }) => legendFormat),
      ...rules.map(({ annotations }) => annotations.summary),
    ].flatMap(text => [...text.matchAll(/\{\{ ?(?:\$labels\.)?(\w+) ?\}\}/g)].map(match => match[1] ?? ''))
    expect(grouped.length).toBeGreaterThan(5)
    expect([...grouped, ...legends].filter(label => !known.has(label))).toEqual([])
  })

  test('ask only for impairments that there are', () => {
    const asked = expressions.flatMap(text =>
      [...text.matchAll(/what=~?"([^"]+)"/g)].flatMap(([, what]) => what?.split('|')),
    )
    expect(asked.sort()).toEqual([...IMPAIRMENTS].sort())
  })
})

describe('docker/grafana-dashboard.json', () => {
  test('shows every metric of our own', () => {
    const shown = targets.flatMap(({ expr }) => namedIn(expr)).map(name => name.replace(/_(bucket|count)$/, ''))
    expect(
      own()
        .map(([name]) => name)
        .filter(name => !shown.includes(name)),
    ).toEqual([])
  })

  test('has panels with an id of their own that lie beside each other', () => {
    expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length)
    const cells = panels.flatMap(({ gridPos: { x, y, w, h } }) =>
      Array.from({ length: w * h }, (_, cell) => `${x + (cell % w)},${y + Math.floor(cell / w)}`),
    )
    expect(new Set(cells).size).toBe(cells.length)
    expect(panels.filter(({ gridPos: { x, w } }) => x + w > 24)).toEqual([])
  })
})

describe('docs/operations.md', () => {
  test('lists every metric of our own with its kind and labels, and no other', () => {
    const listed = rowsBelow('Metrics').map(([, name = '', kind = '', labels = '']) => ({
      name: name.replaceAll('`', ''),
      kind,
      labels: [...labels.matchAll(/`(\w+)`/g)].map(match => match[1] ?? ''),
    }))
    const expected = own().map(([name, { type, labels }]) => ({ name, kind: type, labels: [...labels] }))
    expect(listed.sort((a, b) => a.name.localeCompare(b.name))).toEqual(
      expected.sort((a, b) => a.name.localeCompare(b.name)),
    )
  })

  test('lists every alert with its severity, and no other', () => {
    const listed = rowsBelow('Alerts').map(([, alert = '', severity = '']) => [alert.replaceAll('`', ''), severity])
    expect(listed).toEqual(rules.map(({ alert, labels }) => [alert, labels.severity]))
  })

  test('has a line in the runbook for each exit code', () => {
    const section = (heading: string) =>
      read('docs/operations.md')
        .split('\n## ')
        .find(part => part.startsWith(heading)) ?? ''
    const codes = [...section('Exit codes').matchAll(/^\| (\d+) +\|/gm)].map(match => Number(match[1]))
    expect(codes).toEqual([0, 1, 64, 66, 69, 70, 71, 74, 77, 78, 124, 125, 130, 137, 141])
    const runbook = section('Runbook')
    expect(codes.filter(code => !new RegExp(`^\\*\\*[^*]*\\b${code}\\b`, 'm').test(runbook))).toEqual([])
    expect(runbook).toContain('**128 + N')
  })
})
