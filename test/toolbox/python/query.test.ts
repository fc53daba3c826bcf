import { readFileSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { builtInSources } from '../../../src/toolbox/built-in.js'
import { bindArguments } from '../../../src/toolbox/parameters.js'
import type { Json } from '../../../src/toolbox/tool-entry.js'
import { createWebSource } from '../../../src/toolbox/web/web-source.js'
import { pythons } from '../../sandbox/seccomp/run.js'
import { printed, runCode } from './support/run-code.js'

const BUILT_IN = JSON.parse(readFileSync(new URL('../../../src/toolbox/built-in.json', import.meta.url), 'utf8'))
const ROWS = `
import datetime, json, re
from tools import query
rows = [{"name": "Ann", "age": 40, "at": {"city": "Berlin"}, "tags": ["a", "b"]},
        {"name": "bob", "age": None, "at": {"city": "Bonn"}, "tags": []},
        {"name": "Cid", "age": 7.5, "at": None, "tags": ["b"]},
        {"name": "Ann", "age": 40, "at": {"city": "Paris"}}]
def names(found): return [row["name"] for row in found]
`

describe.each(pythons())('query, %s', python => {
  it('filters by functions, regular expressions, paths, values and lists', async () => {
    const code = `${ROWS}
q = query(rows)
assert names(q.filter(name="^A")) == ["Ann", "Ann"] and names(q.filter(name=re.compile("b", re.I))) == ["bob"]
assert names(q.filter(lambda row: row["age"] is None)) == ["bob"] == names(q.filter(age=None))
assert names(q.filter(**{"at.city": "^B"})) == ["Ann", "bob"] == names(q.filter(at__city="^B")) == names(q.filter({"at.city": "^B"}))
assert names(q.filter("at", age=40, at__city="Par")) == ["Ann"] and q.filter(at__city="Par").first() is rows[3]
assert names(q.filter(age=lambda age: age and age < 10)) == ["Cid"] and names(q.filter(name=["bob", "Cid"])) == ["bob", "Cid"]
assert names(q.filter({"tags.0": "a"})) == ["Ann"] and names(q.filter(age="^40$")) == ["Ann", "Ann"]
assert q.count() == 4 and q.count(name="Ann") == 2 and len(q.filter(nothing="x")) == 0`
    await printed(code, { python })
  })

  it('sorts numbers, dates, texts and mixtures of them, what is missing last', async () => {
    const code = `${ROWS}
assert names(query(rows).sort("age")) == ["Cid", "Ann", "Ann", "bob"]
assert names(query(rows).sort("age", reverse=True)) == ["Ann", "Ann", "Cid", "bob"]
assert query(rows).sort(["name", "at.city"]).map("at.city") == ["Berlin", "Paris", None, "Bonn"]
assert query(rows).sort(lambda row: row["name"].lower()).map("name") == ["Ann", "Ann", "bob", "Cid"]
assert query(["10", "9", " -1.5 ", "1e3"]).sort() == [" -1.5 ", "9", "10", "1e3"]
assert query(["10", "9", "x"]).sort() == ["10", "9", "x"]
dates = ["2024-02-01T00:00:00Z", "2024-01-31", "2024-02-01T01:30:00+02:00"]
assert query(dates).sort() == [dates[1], dates[2], dates[0]]
day, aware = datetime.date(2024, 1, 1), datetime.datetime(2023, 1, 1, tzinfo=datetime.timezone.utc)
naive = datetime.datetime(2025, 1, 1)
nan = float("nan")
mixed = ["b", None, 3, day, {"x": 1}, nan, [2], naive, True, "a", aware, object, (1, None)]
found = query(mixed).sort()
assert found[:7] == [True, 3, aware, day, naive, "a", "b"] and found[-2] is None and found[-1] is nan, found
assert query(mixed).sort(reverse=True)[-2] is None and query(mixed).sort(reverse=True).count() == len(mixed)
assert query([{"a": 1}, {"a": "x"}, {}, 5]).sort("a").map("a").first(2) == [1, "x"]`
    await printed(code, { python })
  })

  it('reads the columns of tables: blanks are no values, and numbers may be written as people write them', async () => {
    const code = `${ROWS}
import csv, ipaddress, sqlite3
prices = query(csv.DictReader(["name,price", "a,10", "b,", "c,9", "d, "]))
assert prices.sort("price").map("name") == ["c", "a", "b", "d"] and prices.sort("price", reverse=True).map("name") == ["a", "c", "b", "d"]
assert prices.max("price") == "10" and prices.min("price") == "9" and prices.sum("price") == 19 and prices.mean("price") == 9.5
assert prices.group("name")["b"].mean("price") is None and prices.filter(price="^$").map("name") == ["b"]
written = query(["1,234.5", "NaN", "-2,000", "nan", "9", 10, "", "1e2"])
assert written.sort() == ["-2,000", "9", 10, "1e2", "1,234.5", "NaN", "nan", ""], written.sort()
assert written.max() == "1,234.5" and written.sum() == 1234.5 - 2000 + 9 + 10 + 100 and written.mean() == written.sum() / 5
assert query(["Nan", "Ann", "1,2", "9"]).sort() == ["1,2", "9", "Ann", "Nan"]
for wrong in ("N/A", "1,2", "12,34", "$5"):
    try: query(["1", wrong]).sum()
    except ValueError as error: print(error)
    assert query(["1", wrong]).max() == max("1", wrong)
pairs = query([{"a": "10", "b": "x"}, {"a": "9", "b": None}, {"a": "9", "b": "y"}])
assert pairs.sort(lambda row: (row["a"], row["b"])).map("a", "b").map("b") == ["y", None, "x"]
assert query([datetime.time(10), datetime.time(9)]).sort().first().hour == 9 and query([True, "0", None, 2]).sort() == ["0", True, 2, None]
hosts = [ipaddress.ip_address(one) for one in ("10.0.0.10", "10.0.0.9")]
assert query(hosts).sort() == hosts[::-1] and query([{"b": 1}, {"a": 1}, {1}, {2}]).sort().first(2) == [{"a": 1}, {"b": 1}]
nans = query([{"x": float("nan")}, {"x": None}, {"x": float("nan")}, {"x": 1}])
assert nans.group("x").count() == {None: 3, 1: 1} and nans.unique("x").count() == 2
db = sqlite3.connect(":memory:")
db.row_factory = sqlite3.Row
assert query(db.execute("select 10 as n union select 9")).sort("n").map("n") == [9, 10]`
    expect((await printed(code, { python })).trim().split('\n')).toEqual(
      ['N/A', '1,2', '12,34', '$5'].map(one => `'${one}' is no number`),
    )
  })

  it('maps, groups, reduces and counts in a chain', async () => {
    const code = `${ROWS}
q = query(rows)
assert q.map("name") == ["Ann", "bob", "Cid", "Ann"] and q.map(lambda row: row["age"]).last() == 40
assert q.map("name", "at.city").first() == {"name": "Ann", "at.city": "Berlin"}
assert names(q.unique("name")) == ["Ann", "bob", "Cid"] and query([[1], [1], {"a": 1}, {"a": 1}]).unique() == [[1], {"a": 1}]
groups = q.group("name")
assert list(groups) == ["Ann", "bob", "Cid"] and groups["Ann"].sum("age") == 80 and groups.count() == {"Ann": 2, "bob": 1, "Cid": 1}
assert groups.sum("age") == {"Ann": 80, "bob": 0, "Cid": 7.5} and groups.map(len) == groups.count()
assert q.group(lambda row: row["age"]).count() == {40: 2, None: 1, 7.5: 1}
assert q.reduce(lambda total, row: total + len(row["name"]), 0) == 12 and query([1, 2, 3]).reduce(lambda a, b: a * b) == 6
assert q.first(2).map("name") == ["Ann", "bob"] and q.last(2) == rows[2:] and q.first(99).count() == 4 and q.last(0) == []
assert query([]).first() is None and query([]).last() is None and not query([]) and q
seen = []
assert q.each(seen.append) is q and seen == rows
assert q.flat("tags") == ["a", "b", "b"] and q.flat("tags").group(None).count() == {"b": 2, "a": 1}
assert q.min("age") == 7.5 and q.max("age") == 40 and q.mean("age") == 87.5 / 3 and query([]).mean() is None
assert query(["1", 2, None, "0.5"]).sum() == 3.5
assert len(q) == 4 and q[0] is rows[0] and q[1:3].map("name") == ["bob", "Cid"] and rows[1] in q and [*q] == rows == q.list() == list(q)
assert json.dumps(list(q.map("name"))) == '["Ann", "bob", "Cid", "Ann"]'`
    await printed(code, { python })
  })

  it('takes lists, dicts, generators, paths and objects', async () => {
    const code = `${ROWS}
import collections, dataclasses
Pair = collections.namedtuple("Pair", "a b")
@dataclasses.dataclass
class Thing: a: int
assert query({"x": 1, "y": 2}).filter(key="x") == [{"key": "x", "value": 1}]
assert query(n * n for n in range(4)) == [0, 1, 4, 9] and query(None) == [] and query({1, 1}) == [1]
assert query({"data": {"web": [{"u": 1}]}}, "data.web").map("u") == [1] and query({}, "nope").count() == 0
assert query([Pair(1, 2), Thing(3)]).map("a") == [1, 3] and query(query([1])) == [1]
given = [1]
found = query(given)
given.append(2)
assert found == [1]
for wrong in ("text", b"bytes", 5):
    try: query(wrong)
    except TypeError as error: print(error)
try: query([1]).sort(5)
except TypeError as error: print(error)
print(query([{"a": n} for n in range(5)]))`
    expect((await printed(code, { python })).trim().split('\n')).toEqual([
      'query() takes rows; this is str: json_parse() or .splitlines() it first',
      'query() takes rows; this is bytes: json_parse() or .splitlines() it first',
      'query() takes a list, a dict or something else with rows; this is int',
      "a key is a field's name, several names, or a function; this is int",
      '<query of 5 rows>',
      "  {'a': 0}",
      "  {'a': 1}",
      "  {'a': 2}",
      '  … 2 more',
    ])
  })
})

describe('query of tables', () => {
  it('takes the records of a DataFrame and the values of a Series', async () => {
    const code = `
import numpy, pandas
frame = pandas.DataFrame({"a": [2, 1, None], "t": pandas.to_datetime(["2024-01-02", None, "2024-01-01"])})
assert tools.query(frame).sort("a").map("a").first(2) == [1, 2] and tools.query(frame["a"]).count() == 3
assert [str(one)[:10] for one in tools.query(frame).sort("t").map("t")] == ["2024-01-01", "2024-01-02", "NaT"]
near = list(numpy.array([2**53 + 1, 2**53], dtype="int64"))
assert tools.query(near).sort() == near[::-1] and tools.query([pandas.NA, 2, pandas.NaT, 1]).sort().first(2) == [1, 2]
assert tools.query([pandas.NA, 2]).sum() == 2 and tools.query([pandas.NA, pandas.NaT]).group(None).count() == {None: 2}
assert tools.query(numpy.array([3, 1])).sort() == [1, 3] and tools.query(frame).sum("a") == 3`
    await printed(code)
  })
})

describe('helpers', () => {
  it('parse JSON as it comes, quote for the shell, and try again', async () => {
    const code = `
import time
from tools import json_parse, shell_quote, retry, ToolError
assert json_parse('\\ufeff{"a": "x\\ty\\nz"}') == {"a": "x\\ty\\nz"} == json_parse(b'\\xef\\xbb\\xbf{"a": "x\\ty\\nz"}')
assert json_parse(bytearray(b'[1]')) == [1] == json_parse("[1]".encode("utf-16"))
for wrong in ({}, "{"):
    try: json_parse(wrong)
    except (TypeError, ValueError) as error: print(error)
assert tools.shell.terminal("printf %s " + shell_quote("it's $HOME"))["output"] == "it's $HOME" and shell_quote(5) == "5"
times = []
def fails():
    times.append(time.monotonic())
    if len(times) < 3: raise ToolError("not yet")
    return "now"
assert retry(fails, delay=0.1) == "now" and len(times) == 3 and times[2] - times[1] > 0.19 and times[1] - times[0] < times[2] - times[1] + 5
for tool, tries in (("fail", 2), ("denied", 1), ("budget", 1), ("lost", 1)):
    done = []
    try: retry(lambda: (done.append(1), tools.test[tool]()), max_attempts=2, delay=0)
    except ToolError: assert len(done) == tries, tool
try: retry(fails, max_attempts=0)
except ValueError as error: print(error)`
    expect(await printed(code)).toBe(
      `json_parse takes str or bytes; this is dict, which is parsed already\nExpecting property name enclosed in double quotes: line 1 column 2 (char 1)\nmax_attempts is 0; it must be at least 1\n`,
    )
  })
})

describe('hermes_tools', () => {
  it('has functions that return dicts of the shapes that its prompts expect', async () => {
    const code = `
from hermes_tools import web_search, web_extract, read_file, write_file, search, search_files, patch, terminal, json_parse, shell_quote, retry
import hermes_tools, inspect
assert search is search_files and hermes_tools.ToolError
assert web_search("cats", limit=3) == {"success": True, "data": {"web": [{"url": "u", "title": "cats", "description": "d", "position": 1}]}}
assert web_extract(["u"])["results"][0]["content"] == "c" and web_extract("u", char_limit=5)["results"][0]["url"] == ["u"]
assert write_file("a.py", "x = 1\\ny = 2\\n") == {"status": "ok", "path": "a.py", "bytes_written": 12, "dirs_created": False}
assert write_file(path="b.py", content="z", cross_profile=True)["bytes_written"] == 1
assert read_file("a.py")["content"] == "1|x = 1\\n2|y = 2" and read_file("a.py", 2, 1)["content"] == "2|y = 2"
assert read_file("a.py", offset=1, limit=500)["total_lines"] == 2
assert search("x =")["matches"] == [{"path": "a.py", "line": 1, "content": "x = 1"}]
assert search("*.py", target="files", path=".", order="discovery")["files"] == ["a.py", "b.py"]
assert search_files("=", "content", ".", "*.py", 50, 0, "count", 0)["counts"] == {"a.py": 2}
assert patch("a.py", "x = 1", "x = 3")["success"] is True
assert patch(mode="patch", patch="*** Begin Patch\\n*** Add File: c.py\\n+new\\n*** End Patch")["files_created"] == ["c.py"]
assert terminal("cat a.py; false", timeout=20, workdir=".") == {"output": "x = 3\\ny = 2\\n", "exit_code": 1, "error": None}
assert terminal("echo hi", background=True, check_interval=5)["output"] == terminal("echo hi", pty=True, background=True)["output"]
print(sorted(hermes_tools.__all__))
print(inspect.signature(read_file), inspect.signature(terminal))`
    const ended = await runCode(code)
    expect(ended).toMatchObject({
      stderr:
        'note: terminal() takes no background and no check_interval here: ignored; commands run in the foreground\n' +
        'note: terminal() takes no pty here: ignored; commands run in the foreground\n',
      exitCode: 0,
    })
    expect(ended.stdout).toContain(
      "['json_parse', 'patch', 'read_file', 'retry', 'search', 'search_files', 'shell_quote', 'terminal', 'web_extract', 'web_search', 'write_file']",
    )
    expect(ended.stdout).toContain(
      '(path, offset=1, limit=2000, **others) (command, timeout=None, workdir=None, **others)',
    )
  })

  it('takes numbers and flags as its prompts give them, within the bounds of the tools', async () => {
    type Arguments = { readonly [name: string]: Json }
    const search = { url: 'http://127.0.0.1/', key: null }
    const web = createWebSource({
      config: { mode: 'allow', search, ports: [], deniedNetworks: [] },
      log: { warn: () => {} },
    })
    const sources = [...builtInSources(BUILT_IN, { noShell: null }), web]
    const entries = (await Promise.all(sources.map(one => one.tools(new AbortController().signal)))).flat()
    await web.close()
    const code = `
import sys
from hermes_tools import *
write_file("a", "x\\nx\\n")
for one in (0, -3, "20", "2.0", 2.7, None, "many", sys.maxsize, float("inf"), [1]):
    read_file("a", offset=one, limit=one)["content"]
    search("x", limit=one, offset=one, context=one)["matches"]
    web_search("q", limit=one)
    web_extract("u", char_limit=one)
    terminal("true", timeout=one if one in ("20", 2.7) else None)
for one in (0, -1, "soon", float("nan")): terminal("true", timeout=one)
assert patch("a", "x", "y", replace_all="true")["success"] and "error" in patch("a", "y", "z", replace_all="False")
print(len(web_extract(["u"] * 12)["results"][0]["url"]))`
    const ended = await runCode(code)
    expect([ended.stdout, ended.stderr]).toEqual([
      '10\n',
      'note: web_extract() reads 10 pages in a call: the other 2 are left out\n',
    ])
    for (const { category, tool, kw } of ended.calls) {
      const entry = entries.find(one => one.category === category && one.name === tool)
      if (entry === undefined) throw new Error(`no tool ${category}.${tool}`)
      expect(bindArguments(entry, { category: entry.category, tool: entry.name }, [], kw as Arguments)).toEqual({
        args: kw,
      })
    }
    const given = (tool: string, name: string) =>
      ended.calls.filter(one => one['tool'] === tool).map(one => (one['kw'] as Arguments)[name])
    expect(given('read_file', 'offset')).toEqual([1, 1, 20, 2, 2, 1, 1, 2 ** 53, 1, 1])
    expect(given('read_file', 'limit')).toEqual([1, 1, 20, 2, 2, 2000, 2000, 2 ** 53, 2000, 2000])
    expect(given('search', 'offset')).toEqual([0, 0, 20, 2, 2, 0, 0, 2 ** 53, 0, 0])
    expect(given('web_search', 'limit')).toEqual([1, 1, 20, 2, 2, 5, 5, 20, 5, 5])
    const none = undefined
    expect(given('web_extract', 'char_limit')).toEqual([200, 200, 200, 200, 200, none, none, 200_000, none, none, none])
    expect(given('terminal', 'timeout')).toEqual([none, none, 20, none, 2.7, ...Array(9).fill(none)])
  })

  it('returns what went wrong, and raises only what ends the run', async () => {
    const code = `
from hermes_tools import *
print(read_file("nope"), read_file("a\\0"))
write_file("near.txt", "x x")
print(read_file("nar.txt"))
print(patch("near.txt", "x", "y"))
print(web_search("denied"), web_search("budget"), web_search("odd"))
try: web_search("ask")
except Exception as error: print(type(error).__name__, error)`
    const kinds: Record<string, string> = { denied: 'denied', budget: 'budget', ask: 'needs_confirmation' }
    const stdout = await printed(code, {
      answer: request => {
        const words = String((request['kw'] as { query?: string } | undefined)?.query)
        const kind = kinds[words]
        if (kind !== undefined) return { id: request.id, ok: false, kind, message: `no: ${words}` }
        return words === 'odd' ? { id: request.id, ok: true, value: '{"data": {"web": []}}' } : undefined
      },
    })
    expect(stdout.trim().split('\n')).toEqual([
      "{'error': 'File not found: nope'} {'error': 'path has a null character'}",
      "{'error': 'File not found: nar.txt; did you mean near.txt?', 'similar_files': ['near.txt']}",
      "{'error': 'old_string is 2 times in near.txt (lines 1, 1): add lines around it to make it unique, or pass replace_all=True', 'success': False, 'matches': 2}",
      "{'error': 'no: denied'} {'error': 'no: budget'} {'success': True, 'data': {'web': []}}",
      'ToolNeedsConfirmation no: ask',
    ])
  })
})
