import { describe } from 'vitest'
import { attackAll } from './support/areas.js'
import { beNobody } from './support/unprivileged.js'

beNobody()

describe('attacks on the namespaces tier of an unprivileged worker', () => attackAll({ tier: 'namespaces' }))
