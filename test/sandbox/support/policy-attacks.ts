/**
 * Ways out of a restricted Python that have been found in such policies, and what is to be said of each: [name, code, words]. Each
 * prints ESCAPED where it gets through.
 */
export const ATTACKS: readonly (readonly [name: string, code: string, words: RegExp])[] = [
  ['an import', 'import os\nprint("ESCAPED")', /imports are not allowed \(os\)/],
  ['an import of a part', 'from os import path\nprint("ESCAPED")', /imports are not allowed/],
  ['a star import', 'from os import *\nprint("ESCAPED")', /imports are not allowed/],
  ['a star import from the future', 'from __future__ import *\nprint("ESCAPED")', /not allowed|not defined/],
  ['an import of tools', 'import tools\nprint("ESCAPED")', /there without one, so delete this line/],
  ['__import__', '__import__("os")\nprint("ESCAPED")', /"__import__" is not allowed/],
  ['open', 'print("ESCAPED", open("/etc/passwd").read())', /open\(\) is not allowed/],
  ['eval', 'eval("print(\'ESCAPED\')")', /eval\(\) is not allowed/],
  ['exec', 'exec("print(\'ESCAPED\')")', /exec\(\) is not allowed/],
  ['compile', 'compile("1", "", "eval")\nprint("ESCAPED")', /compile\(\) is not allowed/],
  ['globals', 'print("ESCAPED", globals())', /globals\(\) is not allowed/],
  ['__builtins__', 'print("ESCAPED", __builtins__)', /"__builtins__" is not allowed/],
  ['dunder attributes', 'print("ESCAPED", ().__class__.__base__.__subclasses__())', /"__subclasses__" is not allowed/],
  ['dunder names of getattr', 'print("ESCAPED", getattr((), "__class__"))', /"__class__" is not allowed/],
  ['getattr with a default', 'print("ESCAPED", getattr((), "__class__", 1))', /"__class__" is not allowed/],
  [
    'getattr with a str that lies',
    'class S(str):\n    def startswith(self, *a):\n        return False\nprint("ESCAPED", getattr((), S("__class__")))',
    /attribute name must be string/,
  ],
  ['the name of another guard', 'def f(_getattr_, /):\n    return 1\nprint("ESCAPED")', /"_getattr_" is not allowed/],
  ['a guard by assignment', '_getattr_ = lambda o, n: o\nprint("ESCAPED")', /"_getattr_" is not allowed/],
  ['a guard by walrus', '(_write_ := 1)\nprint("ESCAPED")', /"_write_" is not allowed/],
  ['a guard as a loop variable', 'for _getattr_ in [1]:\n    print("ESCAPED")', /"_getattr_" is not allowed/],
  [
    'a guard as an exception',
    'try:\n    1/0\nexcept Exception as _write_:\n    print("ESCAPED")',
    /"_write_" is not allowed/,
  ],
  ['a guard as a function', 'def _getattr_(o, n):\n    pass\nprint("ESCAPED")', /"_getattr_" is not allowed/],
  ['a guard as a class', 'class _getattr_:\n    pass\nprint("ESCAPED")', /"_getattr_" is not allowed/],
  ['a guard as an argument of a lambda', '(lambda *_getattr_: 1)()\nprint("ESCAPED")', /"_getattr_" is not allowed/],
  ['a guard made global', 'def f():\n    global _getattr_\nprint("ESCAPED")', /"_getattr_" is not allowed/],
  ['a guard by with', 'with f() as _write_:\n    print("ESCAPED")', /"_write_" is not allowed/],
  ['str.format', 'print("ESCAPED" + "{0.__class__}".format(1))', /"__class__" is not allowed/],
  ['str.format by its class', 'print("ESCAPED" + str.format("{0.__class__}", 1))', /"__class__" is not allowed/],
  [
    'str.format handed on',
    'print("ESCAPED" + next(map(str.format, ["{0.__class__}"], [1])))',
    /"__class__" is not allowed/,
  ],
  ['str.format by getattr', 'print("ESCAPED" + getattr("{0.__class__}", "format")(1))', /"__class__" is not allowed/],
  [
    'str.format by super',
    'class S(str):\n    def go(self, x):\n        return super().format(x)\nprint("ESCAPED" + S("{0.__class__}").go(1))',
    /"__class__" is not allowed/,
  ],
  ['str.format_map', 'print("ESCAPED" + "{a.__class__}".format_map({"a": 1}))', /"__class__" is not allowed/],
  [
    'a specification within a format',
    'print("ESCAPED" + "{0:{1.__class__}}".format(1, 2))',
    /"__class__" is not allowed/,
  ],
  ['an f-string', 'print(f"ESCAPED{(1).__class__}")', /"__class__" is not allowed/],
  [
    'str.format by augmented assignment',
    'class R:\n    def __radd__(self, f):\n        print("ESCAPED", f(1))\nclass S(str):\n    pass\n' +
      's = S("{0.__class__}")\ns.format += R()',
    /augmented assignment of the attribute "format" is not allowed/,
  ],
  [
    'the object of an error by augmented assignment',
    'class R:\n    def __radd__(self, o):\n        print("ESCAPED", o)\nclass E(AttributeError):\n    pass\nE().obj += R()',
    /augmented assignment of the attribute "obj" is not allowed/,
  ],
  [
    'letters that Python takes for others',
    'g = (x for x in [1])\nprint("ESCAPED", g.gi_\u{1d4bb}rame)',
    /"gi_frame" is not allowed/,
  ],
  ['the type of functions', 'print("ESCAPED", type(lambda: 0)((lambda: 1).__code__, {}))', /"__code__" is not allowed/],
  [
    'a nonlocal class',
    'class C:\n    def f(self):\n        nonlocal __class__\nprint("ESCAPED")',
    /"__class__" is not allowed/,
  ],
  [
    'a guard as the target of a comprehension',
    'print("ESCAPED", [1 for _getattr_ in [1]])',
    /"_getattr_" is not allowed/,
  ],
  ['an attribute as the target of a loop', 'for print.x in [1]:\n    print("ESCAPED")', /can not be set/],
  ['an annotation of an attribute', 'print.__globals__: int = 1\nprint("ESCAPED")', /"__globals__" is not allowed/],
  ['a frame of a generator', 'g = (x for x in [1])\nprint("ESCAPED", g.gi_frame)', /"gi_frame" is not allowed/],
  [
    'a frame of a generator by getattr',
    'def g():\n    yield 1\nprint("ESCAPED", getattr(g(), "gi_" + "frame").f_back)',
    /"f_back" is not allowed/,
  ],
  [
    'code of a generator',
    'g = (x for x in [1])\nprint("ESCAPED", getattr(g, "gi_" + "code"))',
    /"gi_code" is not allowed/,
  ],
  [
    'a frame of a traceback',
    'class C:\n    def __enter__(self):\n        return self\n    def __exit__(self, t, v, tb):\n' +
      '        print("ESCAPED", getattr(tb, "tb_" + "frame"))\nwith C():\n    1/0',
    /"tb_frame" is not allowed/,
  ],
  [
    'the traceback of an error',
    'try:\n    1/0\nexcept Exception as e:\n    print("ESCAPED", e.__traceback__)',
    /"__traceback__" is not/,
  ],
  [
    'the object of an AttributeError',
    'try:\n    print.nothing\nexcept AttributeError as e:\n    print("ESCAPED", e.obj)',
    /"obj" of an error is not allowed/,
  ],
  ['except*', 'try:\n    1/0\nexcept* ZeroDivisionError:\n    print("ESCAPED")', /except\* is not allowed/],
  [
    'a match statement',
    'match 1:\n    case object(__class__=c):\n        print("ESCAPED", c)',
    /match statements are not allowed/,
  ],
  ['an async function', 'async def f():\n    pass\nprint("ESCAPED", f().cr_frame)', /async code is not allowed/],
  ['await', 'await 1\nprint("ESCAPED")', /async code is not allowed/],
  [
    'an async comprehension',
    'async def f():\n    return [x async for x in 1]\nprint("ESCAPED")',
    /async code is not allowed/,
  ],
  [
    'type with three arguments',
    'print("ESCAPED", type("X", (), {"__getattr__": 1}))',
    /three arguments is not allowed/,
  ],
  ['the type of a type', 'print("ESCAPED", type(type(1))("X", (), {}))', /three arguments is not allowed/],
  [
    'a metaclass',
    'class M(type(int)):\n    pass\nclass X(metaclass=M):\n    print("ESCAPED")',
    /metaclass= are not allowed/,
  ],
  ['mro', 'print("ESCAPED", int.mro())', /"mro" is not allowed/],
  [
    '__getattribute__',
    'class C:\n    def __getattribute__(self, n):\n        return 1\nprint("ESCAPED")',
    /"__getattribute__" is not/,
  ],
  ['__class__ in a class', 'class C:\n    __class__ = str\nprint("ESCAPED")', /"__class__" is not allowed/],
  ['__class_getitem__', 'class C:\n    def __class_getitem__(c, i):\n        pass\nprint("ESCAPED")', /not allowed/],
  ['a decorator', '@eval\n@str\ndef f():\n    pass\nprint("ESCAPED")', /eval\(\) is not allowed/],
  ['what is behind print', 'print.__globals__["sys"]\nprint("ESCAPED")', /"__globals__" is not allowed/],
  ['attributes of a built-in function', 'print.x = 1\nprint("ESCAPED")', /attributes of function can not be set/],
  ['attributes of a built-in function by setattr', 'setattr(getattr, "x", 1)\nprint("ESCAPED")', /can not be set/],
  [
    'code of a function',
    'def f():\n    pass\nsetattr(f, "__code__", 1)\nprint("ESCAPED")',
    /"__code__" is not allowed/,
  ],
  ['another super', 'def super():\n    return print\nprint("ESCAPED", super().__call__)', /"super" is not to be given/],
  ['a type alias', 'type X = int\nprint("ESCAPED")', /type parameters are not allowed|invalid syntax/],
  ['vars', 'print("ESCAPED", vars())', /vars\(\) is not allowed/],
  ['roles', 'x__roles__ = 1\nprint("ESCAPED")', /"x__roles__" is not allowed/],
]

/** Code that models write, and what it prints. */
export const ORDINARY: readonly (readonly [name: string, code: string, printed: string])[] = [
  [
    'sums, lists and enumerations',
    'print(sum([1, 2]), list("ab"), list(enumerate("a")), sorted({3, 1}), max(1, 2))',
    "3 ['a', 'b'] [(0, 'a')] [1, 3] 2\n",
  ],
  [
    'other built-ins',
    'print(*zip([1], [2]), *map(str, [1]), *filter(None, [0, 4]), any([1]), all([]), dict(a=1), sep="|", end=".\\n")',
    "(1, 2)|1|4|True|True|{'a': 1}.\n",
  ],
  [
    'tuple unpacking',
    '(a, (b, *c)), d = (1, (2, 3, 4)), 5\nfor i, (k, v) in enumerate({"x": 1}.items()):\n    print(a, b, c, d, i, k, v)',
    '1 2 [3, 4] 5 0 x 1\n',
  ],
  [
    'annotations',
    'from __future__ import annotations\nn: int = 1\nm: Dict[str, int]\ndef f(x: "y", *z: int) -> None:\n    print(x, n)\nf(2)',
    '2 1\n',
  ],
  [
    'augmented assignment',
    'n = 1\nn += 1\nd = {"a": [1]}\nd["a"] += [2]\nd["a"][0] *= 5\nclass P:\n    pass\np = P()\np.x = 1\np.x -= 3\nprint(n, d, p.x)',
    "2 {'a': [5, 2]} -2\n",
  ],
  ['printing in functions', 'def f(n):\n    print("n", n, sep="=", end="!\\n")\n    return n\nf(3)', 'n=3!\n'],
  [
    'f-strings and formats',
    'x = 3.14159\nprint(f"{x:.2f} {x!r:>8} {x=}", "{:>3} {0}".replace("{0}", "{a[0]}").format(1, a=[2]), "%d%%" % 3)',
    '3.14  3.14159 x=3.14159   1 2 3%\n',
  ],
  [
    'comprehensions',
    'print([i * j for i, j in zip([1, 2], [3, 4]) if i], {k: v for k, v in [(1, 2)]}, {*[1]}, sum(y := x for x in [5]), y)',
    '[3, 8] {1: 2} {1} 5 5\n',
  ],
  [
    'errors',
    'try:\n    {}["a"]\nexcept (KeyError, ValueError) as e:\n    print(type(e).__name__, e.args)\nelse:\n    pass\nfinally:\n    print("end")',
    "KeyError ('a',)\nend\n",
  ],
  [
    'classes',
    'class A:\n    n = 0\n    def __init__(self, v):\n        self.v = v\n        A.n += 1\n    def __eq__(self, o):\n        return self.v == o.v\n' +
      '    @property\n    def two(self):\n        return self.v * 2\n    @staticmethod\n    def s():\n        return "s"\n' +
      'class B(A):\n    def __init__(self, v):\n        super().__init__(v)\n    def __repr__(self):\n        return f"B({self.v})"\n' +
      'print(B(2), B(2).two, B(1) == B(1), A.n, B.s(), isinstance(B(1), A), B.__name__)',
    'B(2) 4 True 4 s True B\n',
  ],
  [
    'with',
    'class W:\n    def __enter__(self):\n        return (1, 2)\n    def __exit__(self, *e):\n        return True\nwith W() as (a, b):\n    print(a, b)\n    1/0\nprint("on")',
    '1 2\non\n',
  ],
  [
    'generators and closures',
    'def g(n):\n    yield from range(n)\ndef c():\n    n = 0\n    def i():\n        nonlocal n\n        n += 1\n        return n\n    i()\n    return i()\nprint(list(g(3)), c(), next(g(1)))',
    '[0, 1, 2] 2 0\n',
  ],
  ['the main guard', 'def main():\n    print("main")\nif __name__ == "__main__":\n    main()', 'main\n'],
  ['names of its own for what is not there', 'def open(x):\n    return x\nvars = 3\nprint(open(1), vars)', '1 3\n'],
  [
    'attributes by name',
    'class C:\n    pass\nc = C()\nsetattr(c, "x", 1)\nprint(getattr(c, "x"), hasattr(c, "y"), getattr(c, "y", 2))\ndelattr(c, "x")\nprint(hasattr(c, "x"), hasattr([], "__len__"), hasattr(1, "__iter__"))',
    '1 False 2\nFalse True False\n',
  ],
]
