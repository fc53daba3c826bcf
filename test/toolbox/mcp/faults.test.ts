import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, test } from 'vitest'
import { ToolCatalog } from '../../../src/toolbox/catalog.js'
import type { McpSource } from '../../../src/toolbox/mcp/mcp-source.js'
import { ToolFailure, type ToolSource } from '../../../src/toolbox/tool-entry.js'
import { descendants, survivors } from '../../e2e/support/processes.js'
import { failure, misbehaving, open } from './support/sources.js'

/** The pause after a first failure is then half a second. */
const halfway = { random: () => 0.5 }
const REFERENCE = `\${MY_KEY}`
/** Each source of open() has the same name. */
const categoryOf = (category: string, source: McpSource): ToolSource => ({
  category,
  description: source.description,
  tools: signal => source.tools(signal),
  get problem() {
    return source.problem
  },
  get isReady() {
    return source.isReady
  },
  close: () => source.close(),
})
const live = () => new AbortController().signal

describe('a server that dies', () => {
  test('in a call fails that call at once with its exit code, and is started again at a later use', async () => {
    const { source, names, call } = open(misbehaving('good'), process.env, halfway)
    const before = await names()
    const entries = await source.tools(live())
    const echo = entries.find(entry => entry.name === 'echo')
    const error = await failure(call('die', { code: 7 }))
    expect(error).toBeInstanceOf(ToolFailure)
    expect(error.message).toBe("the tool server 'srv' ended (exit code 7), it is started again in 1 s")
    const problem = "the tool server 'srv' ended (exit code 7), it is started again when it is used a little later"
    expect(source.problem).toBe(problem)
    // Its tools stay known, and refuse with words until the pause is over.
    expect(await names()).toEqual(before)
    expect((await failure(Promise.resolve(echo?.call?.({ message: 'x' }, { signal: live() })))).message).toContain(
      'ended (exit code 7)',
    )
    await sleep(600)
    // The same at any time: each change of it makes the list of tools anew.
    expect(source.problem).toBe(problem)
    expect(await call('echo', { message: 'back' })).toBe('back')
    expect(source.problem).toBeNull()
  })

  test('fails only its own tools', async () => {
    const [ill, well] = [open(misbehaving('good')), open(misbehaving('good'))]
    const [, echoed] = await Promise.all([failure(ill.call('die')), well.call('echo', { message: 'fine' })])
    expect(echoed).toBe('fine')
    expect(well.source.problem).toBeNull()
  })

  test('at its start is a problem in words, with its stderr masked in the log, and is not started in a loop', async () => {
    const server = { ...misbehaving('exits'), env: { API_KEY: REFERENCE } }
    const { source, names, lines } = open(server, { ...process.env, MY_KEY: 'sesame-open-4711' }, halfway)
    expect(await names()).toEqual([])
    expect(source.problem).toContain("the tool server 'srv' ended (exit code 3), it is started again")
    for (let i = 0; i < 20; i++) expect(await names()).toEqual([])
    const told = lines.filter(line => line.msg === 'tool server can not be used')
    expect(told).toMatchObject([{ server: 'srv', reason: 'ended (exit code 3)', upMs: 0, pauseMs: 500 }])
    expect(lines.find(line => line.msg === 'tool server says')).toMatchObject({ line: 'no licence for [redacted]' })
    expect(JSON.stringify(lines)).not.toContain('sesame')
  })

  test.each([
    [{ command: 'no-such-program-here' }, 'no program no-such-program-here on its PATH'],
    [{ command: '/etc/passwd' }, '/etc/passwd is no program'],
    [{ command: 'node', cwd: '/no/such/folder' }, 'no folder /no/such/folder'],
  ])('before it is one says why in the log, and to the code no path of this machine: %j', async (server, detail) => {
    const { source, names, lines } = open(server, process.env, halfway)
    expect(await names()).toEqual([])
    expect(source.problem).toBe(
      "the tool server 'srv' could not start, it is started again when it is used a little later",
    )
    expect(lines).toContainEqual(expect.objectContaining({ msg: 'tool server can not be used', detail }))
  })
})

describe('a server that hangs', () => {
  test('fails only the call that hangs, at its time limit, and is told', async () => {
    const { call } = open({ ...misbehaving('good'), timeoutMs: 1_000 })
    await call('echo', { message: 'up' })
    const hung = failure(call('hang'))
    expect(await call('echo', { message: 'beside' })).toBe('beside')
    const error = await hung
    expect(error).toBeInstanceOf(ToolFailure)
    expect(error.message).toBe("the tool server 'srv' gave no answer within 1 s")
    expect(await call('cancelled')).toMatchObject({ cancelled: [expect.any(Number)] })
  })

  test('is told when the run that called has ended', async () => {
    const { call } = open(misbehaving('good'))
    await call('echo', { message: 'up' })
    const run = new AbortController()
    const hung = failure(call('hang', {}, run.signal))
    setTimeout(() => run.abort(), 200)
    expect((await hung).message).toBe('the run has ended')
    expect(await call('cancelled')).toMatchObject({ cancelled: [expect.any(Number)] })
    expect((await failure(call('echo', {}, AbortSignal.abort()))).message).toBe('the run has ended')
  })

  test('for good is ended when it answers no ping either, and started again', async () => {
    const { call } = open({ ...misbehaving('good'), timeoutMs: 500 }, process.env, { ...halfway, pingLimitMs: 1_000 })
    expect((await failure(call('block'))).message).toBe("the tool server 'srv' gave no answer within 0.5 s")
    await expect.poll(() => call('echo', { message: 'back' }).catch(() => ''), { timeout: 15_000 }).toBe('back')
  })

  test('for good is ended and started again also where runs end before its calls do', async () => {
    const { call, lines } = open(misbehaving('good'), process.env, { ...halfway, pingLimitMs: 1_000 })
    await call('echo', { message: 'up' })
    const run = new AbortController()
    setTimeout(() => run.abort(), 300)
    expect((await failure(call('block', {}, run.signal))).message).toBe('the run has ended')
    await expect.poll(() => call('echo', { message: 'back' }).catch(() => ''), { timeout: 15_000 }).toBe('back')
    const told = lines.filter(line => line.msg === 'tool server can not be used')
    expect(told).toMatchObject([{ reason: 'does not answer any more' }])
  })

  test('at its start delays nobody who uses another', async () => {
    const [hung, well] = [open(misbehaving('mute')), open(misbehaving('good'))]
    const sources = [categoryOf('hung', hung.source), categoryOf('well', well.source)]
    const catalog = new ToolCatalog({ sources, globs: { allow: null, ask: [], deny: [] } })
    const startMs = performance.now()
    const snapshot = await catalog.snapshot(live(), catalog.categoriesIn('tools.well.echo(message="x")'))
    expect(performance.now() - startMs).toBeLessThan(8_000)
    expect(snapshot.find('well', 'echo')).toMatchObject({ name: 'echo' })
    // A search over all starts it, and does not wait to the end of its time either, 10 s.
    const found = await catalog.snapshot(live())
    expect(performance.now() - startMs).toBeLessThan(9_000)
    expect(found.find('hung', 'echo')).toMatchObject({ problem: expect.stringContaining('still being started') })
  })

  test('at its start is given up after the time for it; one that is only slow is waited for', async () => {
    const mute = open({ ...misbehaving('mute'), startTimeoutMs: 500 }, process.env, halfway)
    expect(await mute.names()).toEqual([])
    expect(mute.source.problem).toContain("'srv' gave no answer to initialize within 0.5 s, it is started again")
    const unlisted = open({ ...misbehaving('unlisted'), startTimeoutMs: 1_000 }, process.env, halfway)
    expect(await unlisted.names()).toEqual([])
    expect(unlisted.source.problem).toContain("'srv' gave no list of tools within 1 s")
    const slow = open(misbehaving('slow', '700'))
    const callers = await Promise.all([slow.names(), slow.names(), slow.call('echo', { message: 'hi' })])
    expect(callers[2]).toBe('hi')
    expect(slow.lines.filter(line => line.msg === 'tool server is up')).toHaveLength(1)
    // A run that ends does not wait, and does not keep others from it.
    const aborted = open(misbehaving('slow', '700'))
    expect(await aborted.source.tools(AbortSignal.timeout(100))).toEqual([])
    expect(await aborted.names()).toContain('echo')
  })
})

describe('a server that sends too much', () => {
  test.each([true, false])(
    'of one answer (100 MB, id first: %s) fails that call; memory stays bounded',
    async idFirst => {
      const { call } = open(misbehaving('good'))
      await call('echo', { message: 'up' })
      const before = process.memoryUsage().rss
      let most = 0
      const watch = setInterval(() => {
        most = Math.max(most, process.memoryUsage().rss)
      }, 20)
      const error = await failure(call('large', { mebibytes: 100, idFirst }))
      clearInterval(watch)
      expect(error).toMatchObject({ name: 'ToolFailure', isLost: true })
      expect(error.message).toContain('gave a result of more than 16 MiB')
      expect((most - before) / 1024 / 1024).toBeLessThan(80)
      expect(await call('echo', { message: 'after' })).toBe('after')
    },
  )

  test('in values is refused before they are made, and a good answer with many commas in its text is not', async () => {
    const { call } = open(misbehaving('good'))
    await call('echo', { message: 'up' })
    const before = process.memoryUsage().rss
    const error = await failure(call('many', { values: 4_000_000 }))
    expect(error).toBeInstanceOf(ToolFailure)
    expect(error.message).toContain(
      'gave a result of more than 250000 values, which is not taken; ask for less at once',
    )
    expect((process.memoryUsage().rss - before) / 1024 / 1024).toBeLessThan(120)
    expect(await call('many', { values: 100_000 })).toMatchObject({ list: { length: 100_001 } })
    const commas = ',[{"\\'.repeat(200_000)
    expect(await call('echo', { message: commas })).toBe(commas)
  })

  test('of one answer within the bound is taken whole', async () => {
    const { call } = open(misbehaving('good'))
    expect(await call('large', { mebibytes: 15 })).toHaveLength(15 * 1024 * 1024)
  })

  test('of an image is refused above 8 MiB', async () => {
    const { call } = open(misbehaving('good'))
    const error = await failure(call('image', { characters: 12 * 1024 * 1024 }))
    expect(error.message).toBe('the result holds a block of the type image with 9 MiB; at most 8 MiB are taken')
    expect(await call('image', { characters: 8 })).toEqual([{ type: 'image', mimeType: 'image/png', data: 'AAAAAAAA' }])
  })

  test.each(['notifications/message', 'notifications/tools/list_changed', ''])(
    'notifications (%s; none: empty lines) costs the worker little, and its calls still end',
    async method => {
      const { call, lines } = open(misbehaving('good'))
      await call('echo', { message: 'up' })
      const before = process.cpuUsage()
      const startMs = performance.now()
      expect(await call('flood', { ms: 3_000, method })).toBe('flooded')
      const used = process.cpuUsage(before)
      const share = (used.user + used.system) / 1_000 / (performance.now() - startMs)
      expect(share).toBeLessThan(0.4)
      expect(lines.filter(line => line.msg === 'a tool server sends more than is read')).toHaveLength(1)
      expect(lines.length).toBeLessThan(10)
    },
  )

  test('empty lines on stderr is read slowly', async () => {
    const { call } = open(misbehaving('good'))
    await call('echo', { message: 'up' })
    const lines = Number(await call('flood', { ms: 2_000, method: '', stderr: true }))
    // 80,000 a second, and what stands in pipes; without a bound it is millions.
    expect(lines).toBeLessThan(600_000)
  })

  test('to stderr fills no log', async () => {
    const server = { ...misbehaving('chatty'), env: { API_KEY: REFERENCE } }
    const { call, lines } = open(server, { ...process.env, MY_KEY: 'sesame-open-4711' })
    expect(await call('echo', { message: 'up' })).toBe('up')
    const said = lines.filter(line => line.msg === 'tool server says')
    expect(said[0]).toMatchObject({ line: 'line 0 with [redacted]' })
    expect(said.length).toBeGreaterThanOrEqual(50)
    expect(said.length).toBeLessThan(150)
  })
})

describe('a server that breaks the protocol', () => {
  test('with garbage on stdout is understood all the same, and told of once', async () => {
    const { call, lines } = open(misbehaving('garbage'))
    expect(await call('echo', { message: 'heard' })).toBe('heard')
    const told = lines.filter(line => line.msg === 'a tool server writes to stdout what is no message')
    expect(told).toMatchObject([{ server: 'srv', line: 'Server is running!' }])
  })

  test('with answers of the wrong shape fails those calls with words', async () => {
    const { call } = open(misbehaving('good'))
    expect((await failure(call('strange'))).message).toBe(
      "the tool server 'srv' gave an answer that is no result of the protocol",
    )
    expect((await failure(call('strange', { error: true }))).message).toContain(
      "the tool server 'srv' refuses the call",
    )
    expect((await failure(call('refuse'))).message).toBe(
      "the tool server 'srv' refuses the call: the month has no 31st day (code -32602)",
    )
  })

  test('with ids, codes and messages of any kind fails that call, and nothing else', async () => {
    const { call } = open(misbehaving('good'))
    expect((await failure(call('odd'))).message).toBe(
      "the tool server 'srv' refuses the call: no reason given (code -32603)",
    )
    expect(await call('echo', { message: 'after' })).toBe('after')
  })

  test('from its first answer on is a problem in words', async () => {
    const { names, source } = open(misbehaving('unversed'), process.env, halfway)
    expect(await names()).toEqual([])
    expect(source.problem).toContain("'srv' gave an answer that is not as the protocol wants it, it is started again")
  })

  test('with endless, circular or malformed lists gives what can be used of them, and the problem says what not', async () => {
    const pages = open(misbehaving('pages'))
    expect(await pages.names()).toHaveLength(1_000)
    expect(pages.source.problem).toContain('those after the first 1000')
    const circle = open(misbehaving('circle'))
    expect(await circle.names()).toEqual(['t_undefined', 't_same'])
    expect(circle.source.problem).toContain('a page that the server gave twice')
    const malformed = open(misbehaving('malformed'))
    expect(await malformed.names()).toEqual(['fine'])
    expect(malformed.source.problem).toBe(
      'left out of its tools: not as the protocol wants them: no-schema, one without a name, deep, fine (a second time); ' +
        'callable only as tasks, which are not supported: t',
    )
  })
})

test('a list of tools that changes is followed', async () => {
  const { call, names } = open(misbehaving('good'))
  expect(await names()).toContain('die')
  await call('change')
  await expect.poll(names, { timeout: 10_000 }).toContain('fresh')
  expect(await names()).not.toContain('die')
})

test('a server gets its own environment, arguments and folder, and nothing else of the worker', async () => {
  const own = { A: 'b', TOKEN: REFERENCE, EMPTY: '' }
  const server = { ...misbehaving('good', 'an "argument" $HOME;'), env: own, cwd: '/usr' }
  const environment = {
    PATH: process.env['PATH'],
    HOME: '/root',
    LANG: 'C.UTF-8',
    FLEXUS_API_KEY: 'fx-secret',
    MY_KEY: 'x',
  }
  const { call } = open(server, environment)
  const seen = (await call('env')) as { env: Record<string, string>; cwd: string; argv: string[] }
  const { PWD: _, ...env } = seen.env // set by the shell that becomes the server
  expect(env).toEqual({ A: 'b', TOKEN: 'x', EMPTY: '', PATH: process.env['PATH'], HOME: '/root', LANG: 'C.UTF-8' })
  expect(seen.cwd).toBe('/usr')
  expect(seen.argv).toEqual(['good', 'an "argument" $HOME;'])
})

test('closing ends a server that ignores SIGTERM with all that it has started, and its calls', async () => {
  const { source, call } = open(misbehaving('stubborn'))
  await call('echo', { message: 'up' })
  const family = descendants(process.pid)
  expect(family.length).toBeGreaterThanOrEqual(2)
  const hung = failure(call('hang'))
  await sleep(100)
  await source.close()
  expect((await hung).message).toBe("the tool server 'srv' is closed")
  expect(await survivors(family, 1_000)).toEqual([])
  expect((await failure(call('echo'))).message).toContain('is closed')
})
