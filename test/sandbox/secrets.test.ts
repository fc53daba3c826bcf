import { execFileSync } from 'node:child_process'
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { readablePython } from './support/pythons.js'
import type { Room } from './support/room.js'
import { sharedRoom } from './support/shared-room.js'

/** What would be the same in every fork, had it been made before: [what, Python expression]. */
const STANDARD_LIBRARY: Readonly<Record<string, string>> = {
  'os.urandom': 'os.urandom(16).hex()',
  'os.getrandom': 'os.getrandom(16).hex()',
  secrets: 'secrets.token_hex()',
  random: '[random.random(), random.getrandbits(64)]',
  'random.Random': 'random.Random().random()',
  'random.SystemRandom': 'random.SystemRandom().random()',
  'random.shuffle': 'random.sample(range(1000), 20)',
  uuid1: 'str(uuid.uuid1())',
  uuid4: 'str(uuid.uuid4())',
  'tempfile names': 'os.path.basename(tempfile.mktemp())',
  'tempfile folders': 'os.path.basename(tempfile.mkdtemp())',
  'ssl.RAND_bytes': 'ssl.RAND_bytes(16).hex()',
  'the salt of a password hash': 'hashlib.scrypt(b"x", salt=os.urandom(8), n=2, r=1, p=1).hex()',
  'names of multiprocessing': 'os.path.basename(multiprocessing.connection.arbitrary_address("AF_UNIX"))',
  'names of shared memory': 'multiprocessing.shared_memory._make_filename()',
  'a MIME boundary': 'email.generator.Generator(io.StringIO())._make_boundary()',
  'a message id': 'email.utils.make_msgid(domain="x")',
}

const NUMPY: Readonly<Record<string, string>> = {
  'numpy.random.rand': 'numpy.random.rand(2).tolist()',
  'numpy.random.bytes': 'numpy.random.bytes(16).hex()',
  'numpy.random.permutation': 'numpy.random.permutation(1000)[:20].tolist()',
  'numpy.random.RandomState': 'numpy.random.RandomState().rand()',
  'numpy.random.default_rng': 'numpy.random.default_rng().random(2).tolist()',
  'numpy.random.SeedSequence': 'str(numpy.random.SeedSequence().entropy)',
  'pandas.DataFrame.sample': 'pandas.DataFrame({"x": range(1000)}).sample(20)["x"].tolist()',
}

/** A library that makes use of all of them when it is imported, and so in the zygote. */
const EAGER = `
import os, random, secrets, ssl, tempfile, uuid
ssl.RAND_bytes(8)
os.close(tempfile.mkstemp()[0])
uuid.uuid4()
random.random()
secrets.token_hex()
`
const EAGER_NAMES = ['os.urandom', 'secrets', 'random', 'uuid4', 'tempfile names', 'tempfile folders', 'ssl.RAND_bytes']

const IMPORTS = `import email.generator, email.utils, hashlib, io, json, os, random, secrets, ssl, tempfile, uuid
import multiprocessing.connection, multiprocessing.shared_memory
`
/** A comment is enough for the zygote that has the libraries. */
const DATA = '# numpy, eager\n'
const Values = z.record(z.string(), z.unknown())

async function valuesOf(
  room: Room,
  what: Readonly<Record<string, string>>,
  head: string,
): Promise<Record<string, string>> {
  const items = Object.entries(what).map(([name, expression]) => `${JSON.stringify(name)}: ${expression}`)
  const report = await room.run(`${head}${IMPORTS}print(json.dumps({${items.join(', ')}}))`)
  if (report.status !== 'completed') throw new Error(`${report.status}: ${report.stderr.text}`)
  const values = Values.parse(JSON.parse(report.stdout.text))
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [name, JSON.stringify(value)]))
}

/** The names of what two or more of the runs had in common. */
function shared(runs: readonly Readonly<Record<string, string>>[]): string[] {
  return Object.keys(runs[0] ?? {}).filter(name => new Set(runs.map(run => run[name])).size < runs.length)
}

describe.each(['namespaces', 'landlock'] as const)('runs in the %s tier', tier => {
  const room = sharedRoom({ tier, preload: ['numpy', 'pandas'], memoryBytes: 256 * 1024 * 1024 })

  it('share nothing random of the standard library, from one zygote or from two', async () => {
    const runs = []
    for (const head of ['', '', DATA, DATA]) runs.push(await valuesOf(room(), STANDARD_LIBRARY, head))
    expect(shared(runs)).toEqual([])
  })

  it('share nothing random of numpy and pandas, in their old ways and the new ones', async context => {
    if (Object.keys(room().pool.facts.installed).length < 2) context.skip('numpy and pandas are not installed')
    const head = `${DATA}import numpy, numpy.random, pandas\n`
    const runs = [await valuesOf(room(), NUMPY, head), await valuesOf(room(), NUMPY, head)]
    expect(shared(runs)).toEqual([])
  })

  it('share nothing random when they run side by side', async () => {
    const runs = await Promise.all(Array.from({ length: 8 }, () => valuesOf(room(), STANDARD_LIBRARY, '')))
    expect(shared(runs)).toEqual([])
  })

  it('have a seed that the code sets', async () => {
    const run = () => room().run('import random\nrandom.seed(7)\nrandom.random()')
    expect((await run()).value).toBe((await run()).value)
  })

  it('share the hash seed and the address layout until their zygote is replaced, which is documented', async () => {
    const what = { hash: 'hash("x")', order: 'list({"a", "b", "c", "d", "e", "f"})', address: 'id(object)' }
    const runs = [await valuesOf(room(), what, ''), await valuesOf(room(), what, DATA)]
    expect(shared(runs)).toEqual(['hash', 'order', 'address'])
    const page = readFileSync(new URL('../../docs/security.md', import.meta.url), 'utf8')
    expect(page).toMatch(/guests of a zygote share its hash seed and its address layout/)
  })

  it('name threads from 1 on, as a fresh interpreter does: names are counters and no secret', async () => {
    const run = () => room().run('import threading\nthreading.Thread().name')
    expect([(await run()).value, (await run()).value]).toEqual(["'Thread-1'", "'Thread-1'"])
  })
})

describe.each(['namespaces', 'landlock'] as const)('a library that draws when it is preloaded, %s tier', tier => {
  let folder: string
  beforeAll(() => {
    folder = mkdtempSync('/tmp/secrets-')
    chmodSync(folder, 0o755)
    execFileSync(readablePython(), ['-m', 'venv', '--without-pip', join(folder, 'venv')])
    const lib = join(folder, 'venv', 'lib')
    writeFileSync(join(lib, readdirSync(lib)[0] ?? '', 'site-packages', 'eager.py'), EAGER)
  })
  afterAll(() => rmSync(folder, { recursive: true, force: true }))
  const room = sharedRoom(() => ({ tier, python: join(folder, 'venv', 'bin', 'python'), preload: ['eager'] }))

  it('leaves every run its own', async () => {
    expect(Object.keys(room().pool.facts.installed)).toEqual(['eager'])
    const what = Object.fromEntries(EAGER_NAMES.map(name => [name, STANDARD_LIBRARY[name] ?? '']))
    const runs = []
    for (let round = 0; round < 3; round++) runs.push(await valuesOf(room(), what, DATA))
    expect(shared(runs)).toEqual([])
  })
})
