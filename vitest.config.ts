import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    include: ['test/{unit,backend,sandbox,toolbox,e2e,fault,escape,soak,browser}/**/*.test.ts'],
    // The tests in a browser need Debian's chromium, and are asked for: .ci/run does.
    // So is the one of a disk that hangs, by .ci/full: it needs a compiler and minutes.
    exclude: [
      ...(process.env['BROWSER_TESTS'] === undefined ? ['test/browser/**'] : []),
      ...(process.env['FAULT_GRID'] === 'full' ? [] : ['test/fault/hanging-disk.test.ts']),
    ],
    globalSetup: 'test/fault/support/summary.ts',
    pool: 'forks',
    testTimeout: 30_000,
    hookTimeout: 60_000,
    // Three at a time: each sandbox test file starts a real Python worker of its own, and figures for time have to stay true; half of
    // the time they wait.
    maxWorkers: 3,
    // Tests of one file that say so run side by side: those of faults mostly wait.
    maxConcurrency: 8,
  },
})
