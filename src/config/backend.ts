import type { BackendConfig, Variables } from '../config.js'
import type { Environment, Fault } from './report.js'

const KEY_ENDPOINT = '/v1/graphql'
/** These two want an API key or ticket; a superuser service has an endpoint of its own (docs/protocol.md). */
const KEY_ENDPOINTS = [KEY_ENDPOINT, '/v1/jailed-bot']

/**
 * Where the backend is and how the worker proves who it is. Exactly one way may be set; with none, a developer's box, which
 * is only believed when FLEXUS_ENDPOINT names a superuser's endpoint. Null together with at least one fault.
 * `env` says what was set at all: a variable that did not parse is no "missing" one.
 */
export function backendConfig(
  values: Variables,
  env: Environment,
): { readonly backend: BackendConfig | null; readonly faults: readonly Fault[]; readonly warnings: readonly string[] } {
  const faults: Fault[] = []
  const warnings: string[] = []
  if (env['FLEXUS_API_BASEURL'] === undefined) {
    faults.push({
      variable: 'FLEXUS_API_BASEURL',
      right: "give the backend's base URL, such as https://backend.example/",
    })
  }

  const ways = ['FLEXUS_API_KEY', 'FLEXUS_WS_TICKET', 'VAULT_ENDPOINT'].filter(name => env[name] !== undefined)
  const endpoint = values.FLEXUS_ENDPOINT
  let credentials: BackendConfig['credentials'] | null = null
  switch (ways.length) {
    case 0:
      if (endpoint !== undefined && !KEY_ENDPOINTS.includes(endpoint)) {
        credentials = { mode: 'superuser', vaultEndpoint: null }
        warnings.push(
          `no credentials are set: the worker is a superuser at ${endpoint} with the password of a developer's box; elsewhere set VAULT_ENDPOINT`,
        )
      } else if (env['FLEXUS_ENDPOINT'] === undefined || endpoint !== undefined) {
        faults.push({
          variable: 'FLEXUS_API_KEY',
          right:
            'give one of FLEXUS_API_KEY (starts with fx-), FLEXUS_WS_TICKET, or VAULT_ENDPOINT (superuser, with FLEXUS_ENDPOINT);' +
            " on a developer's box, FLEXUS_ENDPOINT alone with a superuser's path",
        })
      }
      break
    case 1:
      if (values.FLEXUS_API_KEY !== undefined) credentials = { mode: 'key', apiKey: values.FLEXUS_API_KEY }
      else if (values.FLEXUS_WS_TICKET !== undefined) credentials = { mode: 'ticket', ticket: values.FLEXUS_WS_TICKET }
      else if (ways[0] === 'VAULT_ENDPOINT') {
        if (env['FLEXUS_ENDPOINT'] === undefined || (endpoint !== undefined && KEY_ENDPOINTS.includes(endpoint))) {
          faults.push({
            variable: 'FLEXUS_ENDPOINT',
            right: `give the superuser's endpoint path that goes with VAULT_ENDPOINT (not ${KEY_ENDPOINTS.join(' or ')})`,
          })
        } else if (values.VAULT_ENDPOINT !== undefined) {
          credentials = { mode: 'superuser', vaultEndpoint: values.VAULT_ENDPOINT.replace(/\/$/, '') }
        }
      }
      break
    default:
      for (const variable of ways) {
        faults.push({ variable, right: `set only one of ${ways.join(', ')}: each is another way to log in` })
      }
  }
  const baseUrl = values.FLEXUS_API_BASEURL
  const backend =
    credentials && baseUrl !== undefined ? { baseUrl, endpoint: endpoint ?? KEY_ENDPOINT, credentials } : null
  return { backend, faults, warnings }
}
