import { expect, test } from 'vitest'
import { stripCodeFences } from '../../../src/tool/code-fences.js'

test.each([
  ['with a language', '```python\nprint(1)\n```', 'print(1)\n'],
  ['with py', '```py\nprint(1)\n```', 'print(1)\n'],
  ['in any case', '```PYTHON3\nprint(1)\n```', 'print(1)\n'],
  ['without a language', '```\nprint(1)\n```', 'print(1)\n'],
  ['with words after the language', '```python title="a b"\nx\n```', 'x\n'],
  ['with a blank before the language', '``` python\nx\n```', 'x\n'],
  ['of tildes', '~~~python\nprint(1)\n~~~', 'print(1)\n'],
  ['with blanks after the fences', '```python  \nx\n```  \n\n', 'x\n'],
  ['with blank lines before', '\n\n```python\nx\n```', 'x\n'],
  ['with an indented closer', '```python\nx\n   ```', 'x\n'],
  ['with a longer closer', '```python\nx\n`````', 'x\n'],
  ['with CRLF', '```python\r\nx\r\n```\r\n', 'x\r\n'],
  ['with nothing inside', '```python\n```', ''],
  ['indented as a whole', '  ```python\n  if x:\n\n    y\n  ```', 'if x:\n\n  y\n'],
  ['of four around code with three in it', '````python\nx = """\n```\n"""\n````', 'x = """\n```\n"""\n'],
  ['around a docstring with a fence', '```python\n"""\n```\nx\n"""\ny\n```', '"""\n```\nx\n"""\ny\n'],
  [
    'around a docstring that ends in a fence',
    "```py\n'''doc \\''' \"\"\"\n```'''\ny\n```",
    "'''doc \\''' \"\"\"\n```'''\ny\n",
  ],
  ['around a quote in a comment', '```py\nx # isn\'t """\ny\n```', 'x # isn\'t """\ny\n'],
  ['around tildes', '```py\n~~~\n```', '~~~\n'],
])('takes fences away %s', (_what, given, code) => {
  expect(stripCodeFences(given)).toBe(code)
})

test('takes only one layer away', () => {
  expect(stripCodeFences('```\n```python\nx\n```\n```')).toBe('```python\nx\n```\n')
})

test.each([
  ['code without fences', 'print(1)\n'],
  ['nothing', ''],
  ['blanks', ' \n\t'],
  ['fences in a docstring', 'def f():\n    """\n    ```python\n    f()\n    ```\n    """\n'],
  ['code that ends in a fence', 'x = """\n```'],
  ['a fence with text after it', '```python\nprint(1)\n```\nThis prints 1.'],
  ['two fenced blocks', '```python\na\n```\nand\n```python\nb\n```'],
  ['two fenced blocks without a language', '```\na\n```\nand\n```\nb\n```'],
  ['text before a fence', 'Here:\n```python\nx\n```'],
  ['a fence that never closes', '```python\nprint(1)\n'],
  ['a fence that another kind closes', '```python\nx\n~~~'],
  ['a fence that a shorter one closes', '````python\nx\n```'],
  ['a fence on one line', '```print(1)```'],
  ['inline code', '`print(1)`'],
  ['only an opener', '```'],
  ['an inverted number', '~~~x'],
])('leaves %s', (_what, code) => {
  expect(stripCodeFences(code)).toBe(code)
})
