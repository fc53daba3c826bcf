// Loaded into a worker before its own code: on SIGUSR2 it says on stderr what keeps its event loop busy, by kind.
process.on('SIGUSR2', () => {
  const counts = {}
  for (const kind of process.getActiveResourcesInfo()) counts[kind] = (counts[kind] ?? 0) + 1
  process.stderr.write(`resources ${JSON.stringify(counts)}\n`)
})
