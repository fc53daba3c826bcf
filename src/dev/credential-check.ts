import type { IncomingHttpHeaders } from 'node:http'

/** What the embedded backend lets in; what is left out is not accepted. docs/protocol.md, "Addresses and credentials". */
export interface AcceptedCredentials {
  readonly apiKey?: string
  readonly ticket?: string
  readonly superuserToken?: string
}

interface Presented {
  readonly apiKey: string | null
  readonly ticket: string | null
  readonly superuserToken: string | null
  readonly serviceName: string | null
}

export function presentedInHeaders(headers: IncomingHttpHeaders): Presented {
  const bearer = /^Bearer (.+)$/.exec(headers.authorization ?? '')
  return {
    apiKey: bearer?.[1] ?? null,
    ticket: text(headers['x-flexus-ws-ticket']),
    superuserToken: text(headers['x-flexus-superuser']),
    serviceName: text(headers['x-flexus-service-name']),
  }
}

/** From the payload of `connection_init`. */
export function presentedInInit(payload: Readonly<Record<string, unknown>> | undefined): Presented {
  return {
    apiKey: text(payload?.['apikey']),
    ticket: text(payload?.['x-flexus-ws-ticket']),
    superuserToken: text(payload?.['x-flexus-superuser']),
    serviceName: text(payload?.['x-flexus-service-name']),
  }
}

/** Null if these credentials do, else the backend's words, beginning with the number. Never quotes what was presented. */
export function refusalOf(accepted: AcceptedCredentials, presented: Presented): string | null {
  const given = [presented.apiKey, presented.ticket, presented.superuserToken].filter(value => value !== null)
  if (given.length === 0) return '403: no credentials'
  if (given.length > 1) return '403: more than one kind of credentials'
  const fits =
    matches(accepted.apiKey, presented.apiKey) ||
    matches(accepted.ticket, presented.ticket) ||
    matches(accepted.superuserToken, presented.superuserToken)
  if (!fits) return '403: these credentials do not work'
  if (presented.serviceName === null) return '400: x-flexus-service-name is missing'
  return null
}

function matches(accepted: string | undefined, presented: string | null): boolean {
  return accepted !== undefined && accepted === presented
}

function text(value: unknown): string | null {
  return typeof value === 'string' && value !== '' ? value : null
}
