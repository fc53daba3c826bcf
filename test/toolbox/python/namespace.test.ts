import { describe, expect, it } from 'vitest'
import { pythons } from '../../sandbox/seccomp/run.js'
import { printed, type Request, runCode } from './support/run-code.js'

describe.each(pythons())('the module tools, %s', python => {
  it('is there without an import, and can be imported from', async () => {
    const code = `
import sys
assert "tools" not in sys.modules and "hermes_tools" not in sys.modules
assert ls("tools/")[0] == "web/" and ls("nope/") == [] and read("tools/__index__.md") == "# index"
assert call_tool("test", "echo", value=1) == 1
there = tools
import tools
assert tools is there and sys.modules["tools"] is tools
from tools import web, ToolError, UnknownTool, ToolDenied, ToolNeedsConfirmation, ToolBudgetExceeded, ToolArgumentError
from tools import query, json_parse, shell_quote, retry, call_tool, ls, read, search, tree, call, aio
from tools.web import web_extract
import tools.web as other
import tools.web.web_extract as third
from tools.google_calendar import class_ as classy
assert other is web is tools.web and web_extract is web.web_extract is third and classy() == "classy"
names = {}
exec("from tools import *", names)
assert names["web"] is web and names["query"] is query and names["google_calendar"].list_calendars() == ["work", "home"]
assert search("pages", limit=3) == [{"call": "tools.web.web_extract", "words": "pages", "limit": 3}]
assert tools.tree().startswith("tools/")`
    const ended = await runCode(code, { python })
    expect(ended).toMatchObject({ stderr: '', exitCode: 0 })
    expect(ended.requests.filter(one => one.op === 'catalog')).toHaveLength(1)
  })

  it('gives way to names of the code, and hides no module of another name', async () => {
    const code = `
for name in ("query", "search", "web", "files"):
    open(name + ".py", "w").write("mine = 'mine'")
import query, search, web, files
assert query.mine == search.mine == web.mine == files.mine == "mine"
ls = "my list"
def read(): return "my read"
assert ls == "my list" and read() == "my read"
tools = "my tools"
import builtins
assert builtins.tools.test.echo(value=3) == 3
print("fine")`
    expect(await printed(code, { python })).toBe('fine\n')
  })

  it.each([
    ['a file tools.py', 'open("tools.py", "w").write(BODY)'],
    ['a package tools', 'import os; os.mkdir("tools"); open("tools/__init__.py", "w").write(BODY)'],
  ])('is not hidden by %s, whose other names are found in it', async (_, write) => {
    const code = `
BODY = "import pickle\\ndef web(): return 'mine'\\ndef helper(): return 'helps'\\nclass Row: pass\\n"
open("hermes_tools.py", "w").write("raise SystemExit(5)")
${write}
import hermes_tools, tools
from tools import web, query, helper, Row
assert web is tools.web and web.web_extract.__module__ == "tools.web" and query([1]).count() == 1
assert helper() == tools.helper() == "helps" and hermes_tools.web_search
import pickle
assert type(pickle.loads(pickle.dumps(Row()))) is Row
try: tools.wob
except tools.UnknownTool as error: print(error)
try: from tools import halper
except ImportError as error: print(error)`
    expect(await printed(code, { python })).toMatch(/did you mean tools.web.*\n.*no category of tools 'halper'/)
  })

  it('is not hidden by a folder tools, whose modules can be imported', async () => {
    const code = `
import os
os.makedirs("tools/deep/er")
open("tools/mine.py", "w").write("from tools import web\\nx = 1")
open("tools/deep/er/most.py", "w").write("y = 2")
open("tools/web.py", "w").write("raise SystemExit(5)")
import tools.mine, tools.deep.er.most
from tools import web, mine
from tools.web import web_extract
assert tools.mine.x == 1 and mine.web is web is tools.web and tools.deep.er.most.y == 2 and web_extract
print(tools.test.echo(value=4))`
    expect(await printed(code, { python })).toBe('4\n')
  })

  it('has the worker wait for a category that is not started when the code uses it, and not before', async () => {
    const answer = ({ id, op, category }: Request) => {
      if (op !== 'catalog') return undefined
      const listed = [{ name: 'find', alias: 'find', local: false }]
      const slow = { name: 'slow-one', alias: 'slow_one', description: 'S', problem: null }
      const pending = category === undefined
      return { id, ok: true, value: { categories: [{ ...slow, pending, tools: pending ? [] : listed }], calls_max: 5 } }
    }
    const code = `
assert list(tools) == ["slow_one"] and "not started yet" in repr(tools)
from tools.slow_one import find
assert find.__name__ == "find" and tools.slow_one is tools["slow-one"]
print("slow_one (1)" in repr(tools))`
    const ended = await runCode(code, { python, answer })
    expect([ended.stderr, ended.stdout]).toEqual(['', 'True\n'])
    expect(ended.requests.map(one => one['category'])).toEqual([undefined, 'slow-one'])
  })

  it('calls awkward names by alias and exactly', async () => {
    const code = `
calendar = tools["google-calendar"]
assert calendar is tools.google_calendar
for call in (calendar.list_calendars, calendar["list-calendars"], getattr(calendar, "list-calendars"), calendar["list_calendars.py"],
             getattr(calendar, "list-calendars.py")):
    assert call() == ["work", "home"]
assert calendar["class"]() == calendar.class_() == tools.call("google-calendar", "class") == call_tool("google-calendar", "class.py")
assert calendar["2fa"]() == calendar._2fa() == "two"
assert dir(calendar) == ["_2fa", "class_", "echo", "list_calendars"] and "web" in dir(tools) and "query" in dir(tools)
assert list(calendar) == ["list_calendars", "class_", "_2fa", "echo"] and "test" in list(tools)
assert hasattr(tools, "web") and not hasattr(tools, "wob") and not hasattr(calendar, "__wrapped__")
import copy, inspect
assert str(inspect.signature(tools.web.web_extract)) == "(*, urls: list[str], char_limit: int = 15000) -> dict[str, Any]"
assert callable(tools.web.web_extract)`
    await printed(code, { python })
  })

  it('says what could have been meant', async () => {
    const code = `
import builtins
said = []
def attempt(text):
    try: exec(text, {"tools": builtins.tools})
    except Exception as error: print(type(error).__name__, "|", error)
attempt("tools.wbe")
attempt("tools.web_extract(urls=[])")
attempt("tools.web.web_extrat")
attempt("tools.web.zzz")
attempt("tools.zzz")
attempt("tools.broken.x")
attempt("from tools import wbe")
attempt("from tools.web import web_extrat")
attempt("import tools.webb")
attempt("tools.call('web', 'nope')")
attempt("tools.call('web')")
attempt("tools.call_tool('web')")
attempt("tools.call('web', 'x', [1])")
attempt("tools.call(1, 'x')")
attempt("tools.web(query='x')")`
    expect((await printed(code, { python })).trim().split('\n')).toEqual([
      "UnknownTool | there is no category of tools 'wbe'; did you mean tools.web?",
      "UnknownTool | there is no category of tools 'web_extract'; did you mean tools.web.web_extract?",
      "UnknownTool | there is no tool 'web_extrat' in tools.web; did you mean tools.web.web_extract or tools.web.web_search?",
      "UnknownTool | there is no tool 'zzz' in tools.web; there are: web_extract, web_search",
      "UnknownTool | there is no category of tools 'zzz'; there are: files, shell, web, google_calendar, test, broken",
      'UnknownTool | tools.broken has no tools now: the server does not start',
      "ImportError | there is no category of tools 'wbe'; did you mean tools.web?",
      "ImportError | there is no tool 'web_extrat' in tools.web; did you mean tools.web.web_extract or tools.web.web_search?",
      "ImportError | there is no category of tools 'webb'; did you mean tools.web?",
      'UnknownTool | there is no tool web.nope; did you mean …?',
      expect.stringMatching(/^TypeError \| .*call\(\) missing 1 required positional argument: 'tool'$/),
      'TypeError | call_tool("category", "tool_name", …): tool_name is missing',
      'ToolArgumentError | call("category", "tool", {"name": value, …}): the arguments are a dict with str keys, not list',
      'ToolArgumentError | the name of a category is a str, not int',
      'TypeError | tools.web is a category of tools and can not be called; call one of its tools, such as tools.web.web_extract(…)',
    ])
  })

  it('adds no suggestion of the interpreter to its own, and shows none of its frames', async () => {
    const ended = await runCode(
      'import threading\none = threading.Thread(target=lambda: tools.test.fail(), name="T")\none.start(); one.join()\ntools.web.web_extrat',
      { python },
    )
    expect(ended.stderr).not.toContain('<sandbox>')
    expect(ended.stderr).toMatch(/Exception in thread T.*\ntools\.ToolError: the disk is on fire\n/s)
    expect(ended.stderr).toMatch(
      /tools\.UnknownTool: there is no tool 'web_extrat' in tools\.web; did you mean tools\.web\.web_extract or tools\.web\.web_search\?\n$/,
    )
  })

  it('is explained by help()', async () => {
    const text = await printed(
      'help(tools.web.web_extract); help(tools.web); help(tools); help(query if 0 else tools.query)',
      {
        python,
      },
    )
    expect(text).toContain(
      'web_extract(*, urls: list[str], char_limit: int = 15000) -> dict[str, Any]\n    Readable text of pages.',
    )
    expect(text).toContain('Pages and searches')
    expect(text).toContain('tools.search("words")')
    expect(text).toContain('The rows of data, to go through them in a chain')
    expect(text).not.toContain('<sandbox>')
  })

  it('raises errors of their kinds', async () => {
    const code = `
from tools import *
import tools as t
for name, kind in dict(fail=ToolError, denied=ToolDenied, ask=ToolNeedsConfirmation, budget=ToolBudgetExceeded).items():
    try: t.test[name](x=1)
    except ToolError as error: assert type(error) is kind, error; print(error.tool, error.kind, error, sep=", ")
    else: raise AssertionError(name)`
    expect((await printed(code, { python })).trim().split('\n')).toEqual([
      'test.fail, tool, the disk is on fire',
      'test.denied, denied, test.denied is not allowed',
      'test.ask, needs_confirmation, test.ask needs a person',
      'test.budget, budget, at most 50 tool calls',
    ])
  })
})

describe('representations', () => {
  it('are worth reading', async () => {
    const code =
      'print(tools); print(tools.web); print(tools.web.web_extract); print(tools.broken); print(tools.aio); print(tools.test.none)'
    expect((await printed(code)).trim().split('\n')).toEqual([
      '<tools: files (4), shell (1), web (2), google_calendar (4), test (11), broken (0); tools.search("words") finds tools, help(…) explains one>',
      '<tools.web: web_extract, web_search>',
      '<tool tools.web.web_extract(*, urls: list[str], char_limit: int = 15000) -> dict[str, Any] - Readable text of pages.>',
      '<tools.broken: no tools; the server does not start>',
      expect.stringMatching(/^<tools\.aio: files \(4\)/),
      '<tool tools.test.none(*args, **kw)>',
    ])
  })
})

describe('progress lines', () => {
  it('are written to stdout for each call when they are on', async () => {
    const code = `
tools.test.slow(seconds=0.3)
try: tools.test.fail()
except tools.ToolError: pass
try: tools.test.echo(value={1})
except tools.ToolError: pass
print(tools.files.write_file("a", "b")["status"])
import asyncio
asyncio.run(tools.aio.test.none())`
    expect((await printed(code, { progress: true })).replace(/\d+\.\d s/g, 'N s')).toBe(
      `→ test.slow … N s\n→ test.fail … N s, failed: the disk is on fire\n→ files.write_file … N s\nok\n→ test.none … N s\n`,
    )
  })
})

describe('without a toolbox', () => {
  it('there is nothing of it', async () => {
    const ended = await runCode(
      'for name in ("tools", "ls", "read", "call_tool"): assert name not in dir(__builtins__)\nimport tools',
      {
        without: true,
      },
    )
    expect(ended.stderr).toContain("ModuleNotFoundError: No module named 'tools'")
  })
})
