import { describe, expect, it } from 'vitest'
import { printed, runCode } from './support/run-code.js'

const CASES: readonly [string, string][] = [
  ['datetime.datetime(2024, 1, 2)', "argument 'when' of web.fetch: datetime is no JSON; pass when.isoformat()"],
  ['datetime.date(2024, 1, 2)', "argument 'when' of web.fetch: date is no JSON; pass when.isoformat()"],
  ['datetime.timedelta(1)', "argument 'when' of web.fetch: timedelta is no JSON; pass when.total_seconds()"],
  ['float("nan")', "argument 'when' of web.fetch: nan is no JSON; pass None or a string"],
  ['[1, float("-inf")]', "argument 'when' of web.fetch at when[1]: -inf is no JSON; pass None or a string"],
  [
    '{"a": {1: 2}}',
    `argument 'when' of web.fetch at when['a']: the key 1 is an int, and keys of JSON are strings; pass {str(key): value for key, value in when['a'].items()}`,
  ],
  [
    '{"a": [{2}]}',
    "argument 'when' of web.fetch at when['a'][0]: set is no JSON; pass sorted(when['a'][0]) or list(when['a'][0])",
  ],
  ['b"x"', "argument 'when' of web.fetch: bytes is no JSON; pass when.decode(), or base64.b64encode(when).decode()"],
  [
    '"a\\ud800"',
    `argument 'when' of web.fetch: the text has half a surrogate pair ('\\ud800') at 1, which is no character; pass when.encode("utf-8", "replace").decode()`,
  ],
  ['{"\\udc00": 1}', `half a surrogate pair`],
  [
    '2**64',
    "argument 'when' of web.fetch: the integer 18446744073709551616 would lose digits on its way (it is beyond 2**53); pass str(when)",
  ],
  ['10**100_000', 'the integer of 332193 bits would lose digits'],
  ['pathlib.Path("a")', "argument 'when' of web.fetch: PosixPath is no JSON; pass str(when)"],
  ['decimal.Decimal("1.5")', "argument 'when' of web.fetch: Decimal is no JSON; pass str(when) or float(when)"],
  ['range(3)', "argument 'when' of web.fetch: range is no JSON; pass list(when)"],
  ['(x for x in "ab")', "argument 'when' of web.fetch: generator is no JSON; pass list(when)"],
  ['len', "argument 'when' of web.fetch: builtin_function_or_method is no JSON; call it, and pass what it returns"],
  ['object()', "argument 'when' of web.fetch: object is no JSON; pass str(when), or a dict of its fields"],
  ['Point(1)', "argument 'when' of web.fetch: Point is no JSON; pass dataclasses.asdict(when)"],
  ['Colour.RED', "argument 'when' of web.fetch: Colour is no JSON; pass when.value"],
  ['loop', 'nested more than 100 deep, or it contains itself'],
  ['numpy.int64(1)', "argument 'when' of web.fetch: int64 is no JSON; pass when.item()"],
  ['numpy.float32(1)', "argument 'when' of web.fetch: float32 is no JSON; pass when.item()"],
  ['numpy.bool_(True)', 'is no JSON; pass when.item()'],
  ['numpy.zeros(3)', "argument 'when' of web.fetch: ndarray is no JSON; pass when.tolist()"],
  ['numpy.float64("nan")', "argument 'when' of web.fetch: nan is no JSON; pass None or a string"],
  ['pandas.Series([1])', "argument 'when' of web.fetch: Series is no JSON; pass when.tolist()"],
  ['pandas.DataFrame({"a": [1]})', `argument 'when' of web.fetch: DataFrame is no JSON; pass when.to_dict("records")`],
  ['pandas.Timestamp("2024-01-01")', "argument 'when' of web.fetch: Timestamp is no JSON; pass when.isoformat()"],
  ['pandas.NaT', "argument 'when' of web.fetch: NaTType is no JSON; pass None"],
  ['pandas.NA', "argument 'when' of web.fetch: NAType is no JSON; pass None"],
]

describe('arguments that are no JSON', () => {
  it('fail before anything is sent, with their name, their type and a way out', async () => {
    const code = `
import dataclasses, datetime, decimal, enum, json, numpy, pandas, pathlib
@dataclasses.dataclass
class Point: x: int
class Colour(enum.Enum): RED = 1
loop = []; loop.append(loop)
said = []
for value in (${CASES.map(([value]) => value).join(', ')},):
    try: tools.call("web", "fetch", when=value)
    except TypeError as error: said.append(str(error)); assert isinstance(error, tools.ToolError) and error.tool == "web.fetch"
print(json.dumps(said))`
    const ended = await runCode(code)
    expect(ended.stderr).toBe('')
    expect(ended.requests).toEqual([])
    const said = JSON.parse(ended.stdout) as string[]
    expect(said).toHaveLength(CASES.length)
    for (const [index, [, words]] of CASES.entries()) expect(said[index]).toContain(words)
  })

  it('are named by their number where they are given by position', async () => {
    const code = `
try: tools.test.echo(1, {2})
except tools.ToolError as error: print(error)`
    expect(await printed(code)).toBe('argument 2 of test.echo: set is no JSON; pass sorted(value) or list(value)\n')
  })
})

describe('arguments that are nearly JSON', () => {
  it('arrive as what they stand for', async () => {
    const code = `
import collections, enum, numpy
class Level(enum.IntEnum): HIGH = 3
class Text(str): pass
rows = tools.query([{"n": 2}, {"n": 1}]).sort("n")
print(tools.test.echo(value=(1, (2,), Level.HIGH, Text("t"), numpy.float64(1.5), numpy.str_("s"), collections.OrderedDict(a=1))))
print(tools.test.echo(value=rows), tools.test.echo(value={"rows": [rows.map("n")]}))
print(tools.google_calendar.echo(1, 2, self=3, category=4, tool_name=5, **{"from": 6, "a-b": 7}))
print(call_tool("google-calendar", "echo", 1, self=3, category=4, tool_name=5, tool=8))
print(call_tool(category="google-calendar", tool_name="echo", x=1), tools.call("google-calendar", "echo", {"category": 1}, x=2))`
    expect((await printed(code)).split('\n')).toEqual([
      "[1, [2], 3, 't', 1.5, 's', {'a': 1}]",
      "[{'n': 1}, {'n': 2}] {'rows': [[1, 2]]}",
      "{'args': [1, 2], 'named': {'self': 3, 'category': 4, 'tool_name': 5, 'from': 6, 'a-b': 7}}",
      "{'args': [1], 'named': {'self': 3, 'category': 4, 'tool_name': 5, 'tool': 8}}",
      "{'args': [], 'named': {'x': 1}} {'args': [], 'named': {'category': 1, 'x': 2}}",
      '',
    ])
  })
})
