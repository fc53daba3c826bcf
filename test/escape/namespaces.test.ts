import { describe } from 'vitest'
import { attackAll } from './support/areas.js'

describe('attacks on the namespaces tier', () => attackAll({ tier: 'namespaces' }))
