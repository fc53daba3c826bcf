import { describe } from 'vitest'
import { attackAll } from './support/areas.js'

describe('attacks on the landlock tier', () => attackAll({ tier: 'landlock' }))
