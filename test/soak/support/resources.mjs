// Loaded into a worker before its own code: on SIGUSR2 it says on stderr what keeps its event loop busy, by kind, and what its heap holds
// once all garbage has been collected.
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

// Not as an option: NODE_OPTIONS refuses --expose-gc in Node 20.
setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc')

process.on('SIGUSR2', () => {
  const counts = {}
  for (const kind of process.getActiveResourcesInfo()) counts[kind] = (counts[kind] ?? 0) + 1
  process.stderr.write(`resources ${JSON.stringify(counts)}\n`)
  // Twice: what finalizers let go of is collected by the second.
  collect()
  setImmediate(() => {
    collect()
    // Buffers are in `external`.
    const { heapUsed, external } = process.memoryUsage()
    process.stderr.write(`held ${heapUsed + external}\n`)
  })
})
