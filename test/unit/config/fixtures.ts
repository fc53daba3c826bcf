import { ConfigError, type Environment } from '../../../src/config/report.js'
import { type Config, loadConfig } from '../../../src/config.js'

export const MIB = 1024 ** 2
const host = { cpus: 2, memoryBytes: 8 * 1024 * MIB }
export const KEY = 'fx-8qT4-canary9'

export const local = (env: Environment = {}): Config => loadConfig(env, host, { backend: false })
export const remote = (env: Environment = {}): Config => loadConfig(env, host, { backend: true })

/** The report that the environment is refused with. */
export function report(load: () => Config): string {
  try {
    load()
  } catch (error) {
    if (error instanceof ConfigError) return error.message
    throw error
  }
  throw new Error('the configuration was accepted')
}

export const refusal = (env: Environment): string => report(() => local(env))
