import { execFileSync } from 'node:child_process'
import { chmodSync, mkdirSync, mkdtempSync, readdirSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import type { GuestCalls } from '../../src/sandbox/guest-calls.js'
import { ATTACKS, ORDINARY } from './support/policy-attacks.js'
import { readablePython } from './support/pythons.js'
import { openRoom } from './support/room.js'
import { sharedRoom } from './support/shared-room.js'

const PYTHON = '/usr/bin/python3' // which has Debian's python3-restrictedpython

/** A toolbox with one tool, which answers its arguments. */
function toolbox(asked: unknown[]): GuestCalls {
  const tools = [{ name: 'web_extract', alias: 'web_extract', local: false }]
  const categories = [{ name: 'web', alias: 'web', description: 'The web.', problem: null, tools }]
  return {
    options: { calls_max: 5 },
    async request(payload, answer) {
      const request = JSON.parse(payload.toString()) as { id: number; op: string; kw?: unknown }
      asked.push(request.op)
      const value =
        request.op === 'catalog' ? { categories, calls_max: 5 } : request.op === 'ls' ? ['web/'] : request.kw
      await answer(Buffer.from(JSON.stringify({ id: request.id, ok: true, value })))
    },
    end() {},
  }
}

describe.each(['namespaces', 'landlock'] as const)('the restricted policy in the %s tier', tier => {
  const room = sharedRoom({ tier, python: PYTHON, policy: 'restricted', preload: ['numpy'], slots: 2 })

  it('is named among the layers, with its version, and no library is preloaded', () => {
    const { layers, installed } = room().pool.facts
    expect(layers.at(-1)).toMatchObject({ name: 'restricted policy', inForce: true })
    expect(layers.at(-1)?.why).toMatch(/^RestrictedPython \d/)
    expect(installed).toEqual({})
  })

  it.each(ORDINARY)('lets code use %s', async (_, code, printed) => {
    const { stdout, stderr, status } = await room().run(code)
    expect([stderr.text, stdout.text, status]).toEqual(['', printed, 'completed'])
  })

  it.each(ATTACKS)('refuses %s, in words', async (_, code, words) => {
    const { stdout, stderr, status } = await room().run(code)
    expect(stdout.text).not.toContain('ESCAPED')
    expect(stderr.text).toMatch(words)
    expect(status).toBe('failed')
  })

  it('shows the value of the last expression', async () => {
    expect(await room().run('x = 20\nx + 1')).toMatchObject({ status: 'completed', value: '21' })
    expect(await room().run('20 + 1;')).toMatchObject({ status: 'completed', value: null })
  })

  it('says in one error all that is not allowed, with line and place, as a syntax error', async () => {
    const { stderr } = await room().run('x = 1\nimport os, re\ny = x.__dict__\nopen("f")')
    expect(stderr.text).toContain('main.py", line 2')
    expect(stderr.text).toMatch(
      /SyntaxError: under the restricted policy, imports are not allowed \(os, re\).*line 3: .*line 4: /,
    )
    expect(stderr.text).not.toContain('<sandbox>')
  })

  it('shows the frames of the code alone where a guard refuses', async () => {
    const { stderr } = await room().run('def f(x):\n    return getattr(x, "__class__")\nf(1)')
    expect(stderr.text).toContain('line 2, in f')
    expect(stderr.text).not.toContain('<sandbox>')
  })

  it('lets code call tools, and look at nothing else of them', async () => {
    const asked: unknown[] = []
    const calls = () => toolbox(asked)
    const code =
      'print(tools.web.web_extract(urls=["a"]), call_tool("web", "web_extract", urls=["b"]), ls("tools/"))\n' +
      'print(tools.query([{"n": 2}, {"n": 1}]).sort("n").map("n").list())'
    const ran = await room().run(code, { calls: calls() })
    expect([ran.stderr.text, ran.stdout.text]).toEqual(['', "{'urls': ['a']} {'urls': ['b']} ['web/']\n[1, 2]\n"])
    for (const path of [
      'tools.__class__',
      'tools._catalog',
      'tools.web._catalog',
      'tools.web.web_extract._catalog',
      'ls.__self__',
    ]) {
      const refused = await room().run(`print("ESCAPED", ${path})`, { calls: calls() })
      expect([refused.stdout.text, refused.status], path).toEqual(['', 'failed'])
      expect(refused.stderr.text, path).toMatch(/is not allowed/)
    }
  })

  it('hides frames from the fields of query() as well', async () => {
    const code =
      'g = (x for x in [1])\nprint(tools.query([g]).map("gi_frame").list(), tools.query([g]).map("gi_frame.f_back").list())'
    const ran = await room().run(code, { calls: toolbox([]) })
    expect([ran.stderr.text, ran.stdout.text]).toEqual(['', '[None] [None]\n'])
  })
})

/** Syntax that neither the installed RestrictedPython nor this Python has, let through by a version that has it. */
const NEWER = `
import ast, sys, types
core = sys.modules["core"] = types.ModuleType("core")
core.__path__ = [sys.argv[1] + "/core", sys.argv[1]]
from RestrictedPython.transformer import RestrictingNodeTransformer as Base
class TemplateStr(ast.expr): _fields = ("values",)
class Wormhole(ast.stmt): _fields = ("body",)
for kind in ("TemplateStr", "Wormhole"): setattr(Base, f"visit_{kind}", Base.node_contents_visit)
from core import restriction
for node in (ast.Expr(TemplateStr([ast.Constant("x")])), Wormhole([ast.Pass()])):
    tree = ast.Module([node, ast.Pass()], [])
    try: print(ast.dump(restriction.rewrite(tree, "main.py", "")))
    except SyntaxError as error: print(error)
`

describe('a RestrictedPython that knows more syntax', () => {
  it('has it refused all the same', () => {
    const sources = fileURLToPath(new URL('../../src/sandbox/python', import.meta.url))
    const said = execFileSync(PYTHON, ['-s', '-B', '-c', NEWER, sources], { encoding: 'utf8' })
    expect(said).toBe(
      'under the restricted policy, t-strings are not allowed: use f-strings\n' +
        'under the restricted policy, Wormhole is not allowed\n',
    )
  })
})

describe('without RestrictedPython', () => {
  it('the restricted policy does not start, and says what to install', async () => {
    const folder = mkdtempSync('/tmp/restricted-')
    chmodSync(folder, 0o755)
    try {
      execFileSync(readablePython(), ['-m', 'venv', '--without-pip', join(folder, 'venv')])
      const python = join(folder, 'venv', 'bin', 'python')
      await expect(openRoom({ python, policy: 'restricted' })).rejects.toThrow(
        /SANDBOX_POLICY=restricted: .* has no RestrictedPython.*python3-restrictedpython/,
      )
    } finally {
      rmSync(folder, { recursive: true, force: true })
    }
  })
})

describe('a RestrictedPython that does not fit the interpreter', () => {
  it('is told from one that is missing', async () => {
    const folder = mkdtempSync('/tmp/restricted-')
    chmodSync(folder, 0o755)
    try {
      execFileSync(readablePython(), ['-m', 'venv', '--without-pip', join(folder, 'venv')])
      const [version = ''] = readdirSync(join(folder, 'venv', 'lib'))
      const libraries = join(folder, 'venv', 'lib', version, 'site-packages')
      mkdirSync(join(libraries, 'RestrictedPython-3.6.0.dist-info'))
      writeFileSync(
        join(libraries, 'RestrictedPython-3.6.0.dist-info', 'METADATA'),
        'Metadata-Version: 2.1\nName: RestrictedPython\nVersion: 3.6.0\n',
      )
      writeFileSync(join(libraries, 'RestrictedPython.py'), 'import compiler')
      const python = join(folder, 'venv', 'bin', 'python')
      await expect(openRoom({ python, policy: 'restricted' })).rejects.toThrow(
        /has RestrictedPython 3\.6\.0 that can not be imported \(ModuleNotFoundError: No module named 'compiler'\), 4 or later/,
      )
    } finally {
      rmSync(folder, { recursive: true, force: true })
    }
  })
})

describe('the full policy', () => {
  const room = sharedRoom({ python: PYTHON, slots: 2 })

  it('imports what it likes, and nothing of RestrictedPython is there unasked', async () => {
    const ran = await room().run('import sys\nprint([name for name in sys.modules if "Restricted" in name])')
    expect(ran.stdout.text).toBe('[]\n')
  })
})
