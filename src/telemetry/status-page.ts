import type { HealthView } from './health-server.js'
import type { HandledCall } from './status.js'

const REFRESH_S = 5
const MINUTE_MS = 60_000

/**
 * The page at /: what an operator asks first, without a script, refreshing itself. null while the worker is starting; `now` is milliseconds since
 * the epoch.
 */
export function statusPage(view: HealthView | null, now: number): string {
  const title = view === null ? 'starting' : view.status.reasons.length === 0 ? view.status.state : 'not ready'
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="refresh" content="${view === null ? 1 : REFRESH_S}">
<title>${text(title)} · ${text(view?.identity.service ?? 'worker')}</title>
<style>${STYLE}</style>
<main>${view === null ? '<p class="state">The worker is starting.</p>' : body(view, now)}</main>
</html>
`
}

function body({ identity, status, recorder }: HealthView, now: number): string {
  const { reasons, outbox } = status
  const calls = recorder.lastCalls
  const durations = calls.map(call => call.totalMs).sort((a, b) => a - b)
  const median = durations[Math.floor(durations.length / 2)]
  const layers = identity.layers.map(
    ({ name, inForce, why }) =>
      `<li class="${inForce ? 'good' : 'bad'}">${text(why === undefined ? name : `${name}: ${why}`)}</li>`,
  )
  return `
<h1>${text(identity.service)} <small>${text(identity.version)} · worker ${text(identity.workerId)}</small></h1>
<p class="state ${reasons.length === 0 ? 'good' : 'bad'}"><strong>${text(status.state)}</strong> ${reasons.map(text).join('; ')}</p>
<dl>
${fact('slots in use', `${status.running} of ${status.slots}`)}
${fact('waiting', String(status.waiting))}
${fact('answers not taken', outbox.answers === 0 ? '0' : `${outbox.answers}, for ${duration(outbox.oldestMs)}`)}
${fact('calls in the last minute', String(recorder.callsPerMinute))}
${fact('median of the last calls', median === undefined ? '–' : duration(median))}
</dl>
<h2>Sandbox: ${text(identity.tier)} tier, Python ${text(identity.python)}</h2>
<ul class="layers">${layers.join('')}</ul>
<h2>Last calls</h2>
${calls.length === 0 ? '<p>None so far.</p>' : table(calls, now)}
`
}

function table(calls: readonly HandledCall[], now: number): string {
  const heads = ['ended', 'status', 'waited', 'ran', 'in all', 'answer'].map(head => `<th>${head}</th>`)
  const rows = calls.map(call => row(call, now))
  return `<div class="wide"><table><thead><tr>${heads.join('')}</tr></thead><tbody>${rows.join('')}</tbody></table></div>`
}

function row(call: HandledCall, now: number): string {
  const answer = call.delivered === null ? 'none due' : call.delivered ? 'taken' : 'not taken so far'
  const tries = call.postAttempts > 1 ? ` after ${call.postAttempts} attempts` : ''
  const cells = [
    cell(`${duration(now - call.at)} ago`),
    cell(
      call.killedFor === null ? call.status : `${call.status} (${call.killedFor})`,
      call.status === 'completed' ? 'good' : '',
    ),
    cell(duration(call.queueMs ?? 0)),
    cell(duration(call.runMs)),
    cell(duration(call.totalMs)),
    cell(answer + tries, call.delivered === false ? 'bad' : ''),
  ]
  return `<tr>${cells.join('')}</tr>`
}

function cell(value: string, kind = ''): string {
  return `<td class="${kind}">${text(value)}</td>`
}

function fact(name: string, value: string): string {
  return `<div><dt>${text(name)}</dt><dd>${text(value)}</dd></div>`
}

function duration(ms: number): string {
  if (ms < 1_000) return `${Math.max(0, Math.round(ms))} ms`
  if (ms < 2 * MINUTE_MS) return `${(ms / 1_000).toFixed(1)} s`
  return ms < 120 * MINUTE_MS ? `${Math.round(ms / MINUTE_MS)} min` : `${Math.round(ms / (60 * MINUTE_MS))} h`
}

function text(value: string): string {
  return value.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;')
}

const STYLE = `
:root{color-scheme:light dark;--good:#1a7f37;--bad:#b3261e;--line:#8884}
@media(prefers-color-scheme:dark){:root{--good:#4cc36b;--bad:#ff8a80}}
body{margin:0;font:16px/1.5 system-ui,sans-serif}
main{max-width:60rem;margin:0 auto;padding:1rem}
h1{font-size:1.4rem;margin:.5rem 0}h1 small{font-weight:400;font-size:.9rem;opacity:.7}
h2{font-size:1.05rem;margin:1.5rem 0 .5rem}
.state{padding:.6rem .8rem;border:1px solid currentColor;border-radius:.5rem}
.good{color:var(--good)}.bad{color:var(--bad)}
dl{display:grid;grid-template-columns:repeat(auto-fit,minmax(9rem,1fr));gap:.75rem;margin:1rem 0}
dl div{border:1px solid var(--line);border-radius:.5rem;padding:.5rem .75rem}
dt{font-size:.8rem;opacity:.75}dd{margin:0;font-size:1.2rem;font-variant-numeric:tabular-nums}
.layers{list-style:none;padding:0;display:flex;flex-wrap:wrap;gap:.4rem;margin:0}
.layers li{border:1px solid currentColor;border-radius:1rem;padding:0 .6rem;font-size:.85rem}
.wide{overflow-x:auto}table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}
th,td{text-align:left;padding:.3rem .6rem;border-bottom:1px solid var(--line);white-space:nowrap}
`
