#!/usr/bin/env node
import { EXIT_OS, openFilesMost, tooFewToLoad } from './open-files.js'

const filesMost = openFilesMost()
try {
  // Not loaded before: that takes more open files than a process may have, which is to be said in words.
  const { run } = await import('./commands/run.js')
  process.exitCode = await run(process.argv.slice(2))
} catch (error) {
  const words = tooFewToLoad(error, filesMost)
  if (words === null) throw error
  process.stderr.write(`${words}\n`)
  process.exitCode = EXIT_OS
}
