import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { openRoom } from './support/room.js'
import { sharedRoom } from './support/shared-room.js'
import { makeVenv, type Venv } from './support/venv.js'

/** Libraries of a venv, each with a habit that preloading has to live with. */
const MODULES: Readonly<Record<string, string>> = {
  well_behaved: '__version__ = "1.2.3"\nimport time\nloaded_at = time.monotonic()\nsecret_of_another_run = None',
  slow: 'import time\ntime.sleep(0.4)',
  broken: 'raise RuntimeError("not built for this machine")',
  talkative: 'import sys\nprint("hello from an import")\nprint("and more", file=sys.stderr)',
  leaves: 'raise SystemExit("a dependency is missing")',
  starts_threads:
    'import threading, time\nthreading.Thread(target=time.sleep, args=(3600,), daemon=True).start()\n__version__ = "9"',
}

let venv: Venv
beforeAll(() => {
  venv = makeVenv(MODULES)
})
afterAll(() => venv.remove())

describe.each(['namespaces', 'landlock'] as const)('preloads in the %s tier', tier => {
  const room = sharedRoom(() => ({
    tier,
    python: venv.python,
    preload: ['well_behaved', 'slow', 'broken', 'starts_threads', 'never_installed', 'sqlite3'],
  }))

  it('are named with their versions', () => {
    const { installed } = room().pool.facts
    expect(Object.keys(installed)).toEqual(['well_behaved', 'slow', 'sqlite3'])
    expect(installed).toMatchObject({ well_behaved: '1.2.3', slow: '' })
  })

  it('leave out what is broken, not installed, or starts threads, and name it', () => {
    expect(Object.keys(room().pool.facts.missing).sort()).toEqual(['broken', 'never_installed', 'starts_threads'])
  })

  it('are there when the code begins, and were imported before', async () => {
    const report = await room().run('import time, well_behaved, slow\nwell_behaved.loaded_at < time.monotonic() - 0.3')
    expect(report).toMatchObject({ status: 'completed', value: 'True' })
    expect(report.usage.run_ms).toBeLessThan(1_500)
  })

  it('can still be imported when they were left out for their threads', async () => {
    const code = 'import starts_threads, threading\nstarts_threads.__version__, threading.active_count()'
    const report = await room().run(code)
    expect([report.stderr.text, report.value]).toEqual(['', "('9', 2)"])
  })

  it('are as they were imported in every run, whatever the last one did to them', async () => {
    await room().run('import well_behaved\nwell_behaved.secret_of_another_run = "x"')
    expect((await room().run('import well_behaved\nwell_behaved.secret_of_another_run')).value).toBe(null)
  })

  it('count in nobody’s memory', async () => {
    expect((await room().run('pass')).usage.max_rss_bytes).toBeLessThan(16 * 1024 * 1024)
  })
})

describe('a preload that prints while it is imported', () => {
  it('is not heard in the output of any run', async () => {
    const room = await openRoom({ tier: 'namespaces', python: venv.python, preload: ['talkative'] })
    const report = await room.run('import talkative\nprint("mine")')
    await room.close()
    expect(report.stdout.text).toBe('mine\n')
    expect(report.stderr.text).toBe('')
  })
})

describe('a preload that ends the interpreter while it is imported', () => {
  it('is left out like a broken one', async () => {
    const room = await openRoom({ tier: 'namespaces', python: venv.python, preload: ['leaves', 'well_behaved'] })
    const { facts } = room.pool
    await room.close()
    expect(Object.keys(facts.missing)).toEqual(['leaves'])
    expect(Object.keys(facts.installed)).toEqual(['well_behaved'])
  })
})

describe('numpy, pandas and matplotlib, as far as they are installed', () => {
  const room = sharedRoom({
    tier: 'namespaces',
    preload: ['numpy', 'pandas', 'matplotlib.pyplot'],
    memoryBytes: 512 * 1024 * 1024,
  })
  const installed = (name: string) => name in room().pool.facts.installed

  // First: what is parked at the start was forked as early as can be.
  it('leave each run its whole memory, the first ones too', async () => {
    for (let n = 0; n < 5; n++) {
      const report = await room().run('# numpy\nx = b"x" * (480 << 20)')
      expect({ status: report.status, limit: report.limit }).toEqual({ status: 'completed', limit: null })
    }
  })

  it('are installed or missing, never neither', () => {
    const { installed: there, missing } = room().pool.facts
    expect([...Object.keys(there), ...Object.keys(missing)].sort()).toEqual(['matplotlib.pyplot', 'numpy', 'pandas'])
  })

  it('have random numbers of their own in every run', async () => {
    const code = installed('numpy') ? 'import numpy\nnumpy.random.rand()' : 'import random\nrandom.random()'
    const values = await Promise.all([1, 2, 3, 4].map(async () => (await room().run(code)).value))
    expect(new Set(values).size).toBe(4)
  })

  it('are used without a noticeable import', async () => {
    const code = installed('pandas') ? 'import pandas\nprint(pandas.DataFrame({"a": [1, 2]}).sum().a)' : 'print(3)'
    const report = await room().run(code)
    expect(report).toMatchObject({ status: 'completed', stdout: { text: '3\n' } })
    expect(report.usage.run_ms).toBeLessThan(1_500)
  })

  it('draw into a file, and show() does not block', async () => {
    const draw = 'import matplotlib.pyplot as plt\nplt.plot([1, 2])\nplt.savefig("plot.png")\nplt.show()'
    const code = installed('matplotlib.pyplot') ? draw : 'open("plot.png", "wb").write(b"x"); None'
    const report = await room().run(code)
    expect(report.status).toBe('completed')
    expect(report.files).toMatchObject([{ path: 'plot.png', mime: 'image/png' }])
  })
})
