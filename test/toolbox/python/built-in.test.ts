import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'

const SOURCES = fileURLToPath(new URL('../../../src/sandbox/python/', import.meta.url))
const CATALOG = JSON.parse(readFileSync(new URL('../../../src/toolbox/built-in.json', import.meta.url), 'utf8'))

function python(code: string): unknown {
  const prelude = `import json, sys, types\npackage = types.ModuleType("_sandbox"); package.__path__ = [sys.argv[1] + "core", sys.argv[1]]\nsys.modules["_sandbox"] = package\n`
  const ended = spawnSync('/usr/bin/python3', ['-B', '-c', prelude + code, SOURCES], { encoding: 'utf8' })
  if (ended.status !== 0) throw new Error(ended.stderr)
  return JSON.parse(ended.stdout)
}

describe('the catalog of built-in tools', () => {
  it('has the tools that run in the sandbox, with the parameters and defaults that they have there', () => {
    const inPython = python(`
import inspect
from _sandbox.toolbox.calls import LOCAL
print(json.dumps({".".join(name): {one.name: None if one.default is one.empty else [one.default] for one in
  inspect.signature(run).parameters.values()} for name, run in LOCAL.items()}))`)
    const inCatalog: Record<string, unknown> = {}
    for (const [category, { tools }] of Object.entries<{ tools: Tool[] }>(CATALOG)) {
      for (const { name, parameters } of tools) {
        const given = Object.entries(parameters.properties).map(([parameter, schema]) => [
          parameter,
          parameters.required?.includes(parameter) ? null : [schema.default ?? null],
        ])
        inCatalog[`${category}.${name}`] = Object.fromEntries(given)
      }
    }
    expect(inPython).toEqual(inCatalog)
  })

  it('describes every tool and every parameter', () => {
    for (const { description, tools } of Object.values<{ description: string; tools: Tool[] }>(CATALOG)) {
      expect(description).not.toContain('\n')
      for (const tool of tools) {
        expect(tool.description.split('\n')[0]?.length).toBeLessThan(100)
        for (const schema of Object.values(tool.parameters.properties)) expect(schema.description).toBeTruthy()
      }
    }
  })
})

describe('the library', () => {
  it('costs a guest little: nothing is imported, asked or started when it is installed', () => {
    const [milliseconds, imported, threads] = python(`
import os, threading, time
from _sandbox.toolbox import install
inward, outward = os.pipe(), os.pipe()
before = set(sys.modules)
started = time.thread_time()
install.install(inward[0], outward[1], {"work": "/tmp", "calls_max": 50, "progress": False})
took = time.thread_time() - started
os.set_blocking(outward[0], False)
try: os.read(outward[0], 1); raise AssertionError("it has sent something")
except BlockingIOError: pass
print(json.dumps([took * 1000, sorted(set(sys.modules) - before), threading.active_count()]))`) as [
      number,
      string[],
      number,
    ]
    expect(imported).toEqual([])
    expect(threads).toBe(1)
    expect(milliseconds).toBeLessThan(3)
  })

  it('imports nothing outside of the standard library', () => {
    for (const name of readdirSync(`${SOURCES}toolbox`)) {
      const imports = readFileSync(`${SOURCES}toolbox/${name}`, 'utf8').matchAll(/^\s*(?:from|import) (\S+)/gm)
      for (const [, module] of imports)
        expect(module).toMatch(
          /^(\.|ast|asyncio|builtins|collections|datetime|decimal|difflib|errno|fnmatch|functools|importlib|inspect|itertools|json|math|os|re|select|shlex|signal|stat|subprocess|sys|threading|time|types)/,
        )
    }
  })
})

interface Tool {
  name: string
  description: string
  parameters: { properties: Record<string, { description?: string; default?: unknown }>; required?: string[] }
}
