import { chmodSync, existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { printed } from './support/run-code.js'

let work = ''
const put = (name: string, content: string) => writeFileSync(path.join(work, name), content)
const get = (name: string) => readFileSync(path.join(work, name), 'utf8')

/** The results of calls of files.patch with these arguments, or the messages of their errors. */
async function patched(...given: object[]): Promise<unknown[]> {
  const code = `
import json
for given in json.loads(${JSON.stringify(JSON.stringify(given))}):
    try: print(json.dumps(tools.files.patch(**given)))
    except tools.ToolError as error: print(json.dumps("! " + str(error)))`
  return (await printed(code, { work }))
    .trim()
    .split('\n')
    .map(line => JSON.parse(line))
}

beforeEach(() => {
  work = mkdtempSync(path.join(tmpdir(), 'toolbox-patch-'))
})
afterEach(() => rmSync(work, { recursive: true, force: true }))

describe('files.patch of one text', () => {
  it('replaces what is there once, and says how it differs', async () => {
    put('a.txt', 'one\ntwo\nthree\n')
    put('crlf.txt', 'one\r\ntwo\r\n')
    expect(
      await patched(
        { path: 'a.txt', old_string: 'two\n', new_string: '2\n' },
        { path: 'crlf.txt', old_string: 'one\ntwo', new_string: '1\n2' },
      ),
    ).toEqual([
      {
        success: true,
        status: 'ok',
        diff: '--- a/a.txt\n+++ b/a.txt\n@@ -1,3 +1,3 @@\n one\n-two\n+2\n three\n',
        files_modified: ['a.txt'],
        replacements: 1,
      },
      expect.objectContaining({ success: true }),
    ])
    expect(get('a.txt')).toBe('one\n2\nthree\n')
    expect(get('crlf.txt')).toBe('1\r\n2\r\n')
  })

  it('keeps the line ends of a file', async () => {
    put('crlf', 'a\r\nb\r\nc\r\n')
    put('mixed', 'a\r\nb\nc  \r\n')
    const part = (name: string) => `*** Update File: ${name}\n a\n-b\n+x\n+y\n c\n`
    const replaced = [
      { path: 'crlf', old_string: 'b', new_string: 'x\ny' },
      { path: 'crlf', old_string: '\nx\ny', new_string: '\nb' },
    ]
    const [first, second, , same] = await patched(
      ...replaced,
      { mode: 'patch', patch: `*** Begin Patch\n${part('crlf')}${part('mixed')}*** End Patch` },
      { path: 'crlf', old_string: '\r\n', new_string: '\n', replace_all: true },
    )
    expect(first).toMatchObject({ diff: expect.stringContaining('-b\r\n+x\r\n+y\r\n') })
    expect(second).toMatchObject({ diff: expect.stringContaining('-x\r\n-y\r\n+b\r\n') })
    expect(same).toBe(
      '! the lines of crlf end in CRLF, and those of new_string are made to: there is nothing to change',
    )
    expect([get('crlf'), get('mixed')]).toEqual(['a\r\nx\r\ny\r\nc\r\n', 'a\r\nx\ny\nc  \r\n'])
  })

  it('says where it is when it is there more than once, and replaces all when asked to', async () => {
    put('a.txt', 'x = 1\ny = 1\nx = 1\n')
    const given = { path: 'a.txt', old_string: 'x = 1', new_string: 'x = 2' }
    expect(await patched(given, { ...given, replace_all: true })).toEqual([
      '! old_string is 2 times in a.txt (lines 1, 3): add lines around it to make it unique, or pass replace_all=True',
      expect.objectContaining({ replacements: 2 }),
    ])
    expect(get('a.txt')).toBe('x = 2\ny = 1\nx = 2\n')
  })

  it('says what is near when it is not there', async () => {
    put('a.txt', 'def total(rows):\n    return sum(rows)\n\nprint(total([1]))\n')
    const path = 'a.txt'
    expect(
      await patched(
        { path, old_string: 'def totals(row):', new_string: '' },
        { path, old_string: 'def total(rows):\n  return sum(rows)', new_string: '' },
        { path, old_string: '@@@@@', new_string: '' },
        { path, old_string: '', new_string: 'x' },
        { path, old_string: 'x', new_string: 'x' },
        { path, old_string: 'x' },
        { path: 'b.txt', old_string: 'x', new_string: 'y' },
      ),
    ).toEqual([
      '! old_string is not in a.txt; the nearest lines are:\n  1| def total(rows):',
      "! old_string is not in a.txt; the lines at 1 differ from it only in white space:\n  1| 'def total(rows):'\n  2| '    return sum(rows)'",
      '! old_string is not in a.txt; no line in it is like it: read the file again',
      '! old_string is empty: write_file makes a file, and a patch needs the text that is to be replaced',
      '! old_string and new_string are the same: there is nothing to change',
      '! new_string must be text, not None',
      '! File not found: b.txt',
    ])
  })
})

describe('files.patch of several files', () => {
  const mode = 'patch'

  it('updates, adds, deletes and moves', async () => {
    put(
      'a.py',
      'import os\n\nclass A:\n    def f(self):\n        return 1\n\nclass B:\n    def f(self):\n        return 1\n',
    )
    put('old.txt', 'bye\n')
    put('from.txt', 'text\n')
    const patch = `*** Begin Patch
*** Update File: a.py
@@ class B: @@
     def f(self):
-        return 1
+        return 2
*** Add File: sub/new.txt
+first
+
+third

*** Delete File: old.txt
*** Move File: from.txt -> to.txt
*** End Patch
`
    const [got] = await patched({ mode, patch })
    expect(got).toMatchObject({
      success: true,
      files_modified: ['a.py'],
      files_created: ['sub/new.txt', 'to.txt'],
      files_deleted: ['old.txt', 'from.txt'],
    })
    expect(get('a.py').split('return')).toEqual([expect.anything(), expect.stringMatching(/^ 1/), ' 2\n'])
    expect(get('sub/new.txt')).toBe('first\n\nthird\n')
    expect(get('to.txt')).toBe('text\n')
    expect(existsSync(path.join(work, 'old.txt')) || existsSync(path.join(work, 'from.txt'))).toBe(false)
  })

  it('applies several hunks in order, and those of unified diffs', async () => {
    put('n.txt', '1\n2\n3\n4\n5\n6')
    const patch =
      '*** Begin Patch\n*** Update File: n.txt\n@@ -1,2 +1,2 @@\n 1\n-2\n+two\n@@\n-5\n 6\n+7\n*** End of File\n*** End Patch'
    expect(await patched({ mode, patch })).toMatchObject([{ success: true }])
    expect(get('n.txt')).toBe('1\ntwo\n3\n4\n6\n7')
  })

  it('changes nothing where a part does not fit, and says all that does not', async () => {
    put('a.txt', 'x\nx\n')
    put('b.txt', 'b\n')
    const patch = `*** Begin Patch
*** Update File: b.txt
-b
+c
*** Update File: a.txt
-x
+y
*** Add File: b.txt
+z
*** Delete File: nope.txt
*** Update File: b.txt
@@ nowhere
-c
*** End Patch`
    const [got] = await patched({ mode, patch })
    expect(String(got).split('\n')).toEqual([
      '! no file was changed, since the patch does not fit:',
      '  Update a.txt: these lines are 2 times in it (at 1, 2): add lines around them, or an @@ line above',
      '  Add b.txt: b.txt exists already: use *** Update File',
      '  Delete nope.txt: File not found: nope.txt',
      "  Update b.txt: the line 'nowhere' is not in it",
    ])
    expect([get('a.txt'), get('b.txt')]).toEqual(['x\nx\n', 'b\n'])
  })

  it('changes nothing where a file would be a folder, or can not be written', async () => {
    put('z', 'old\n')
    put('x', 'x\n')
    const change = '*** Update File: z\n-old\n+new\n'
    const given = (rest: string) => JSON.stringify(`*** Begin Patch\n${change}${rest}*** End Patch`)
    const code = `
import os, resource
def attempt(patch):
    try: tools.files.patch(mode="patch", patch=patch)
    except tools.ToolError as error: print(error)
attempt(${given('*** Add File: z/b\n+b\n')})
attempt(${given('*** Delete File: x\n*** Add File: z2/a\n+a\n*** Add File: z2/a/b\n+b\n')})
attempt(${given('*** Add File: x/b\n+b\n')})
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
attempt(${given(`*** Delete File: x\n*** Add File: sub/deep/big\n+${'b'.repeat(200)}\n`)})
replace = os.replace
def fails(source, target):
    if target.endswith("/last"): raise OSError(5, "Input/output error")
    replace(source, target)
os.replace = fails
attempt(${given('*** Delete File: x\n*** Add File: first\n+f\n*** Add File: last\n+l\n')})`
    expect((await printed(code, { work })).trim().split('\n')).toEqual([
      'no file was changed, since the patch does not fit:',
      '  z/b: z is to be a file, not a folder',
      'no file was changed, since the patch does not fit:',
      '  z2/a/b: z2/a is to be a file, not a folder',
      "x/b can't be written: x is no folder; nothing was changed",
      "sub/deep/big can't be written: File too large; nothing was changed",
      "last can't be written: Input/output error; nothing was changed",
    ])
    expect([get('z'), get('x'), readdirSync(work).sort()]).toEqual(['old\n', 'x\n', ['x', 'z']])
  })

  it('keeps modes, of moved files too, and makes a folder in the place of a file', async () => {
    for (const name of ['run', 'moved', 'one']) {
      put(name, `${name}\n`)
      chmodSync(path.join(work, name), 0o775)
    }
    const patch = `*** Begin Patch
*** Add File: moved/more
+more
*** Update File: one
*** Move to: two
-one
+two
*** Move File: moved -> bin/moved
*** Add File: new
+1
*** Update File: new
-1
+2
*** End Patch`
    expect(await patched({ path: 'run', old_string: 'run', new_string: 'ran' }, { mode, patch })).toMatchObject([
      { success: true },
      { success: true },
    ])
    const modes = ['run', 'two', 'bin/moved'].map(name => (statSync(path.join(work, name)).mode & 0o777).toString(8))
    expect(modes).toEqual(['775', '775', '775'])
    expect(['run', 'two', 'bin/moved', 'moved/more', 'new'].map(get)).toEqual([
      'ran\n',
      'two\n',
      'moved\n',
      'more\n',
      '2\n',
    ])
    expect(readdirSync(work).sort()).toEqual(['bin', 'moved', 'new', 'run', 'two'])
  })

  it('says what is no patch', async () => {
    expect(
      await patched(
        { mode, patch: 'hello' },
        { mode },
        { mode: 'x' },
        { mode, patch: '*** Begin Patch\n*** End Patch' },
      ),
    ).toEqual([
      "! line 1 of the patch comes before any *** Update File: 'hello'",
      '! mode="patch" needs patch, a text that begins with *** Begin Patch',
      '! mode must be "replace" or "patch", not \'x\'',
      expect.stringContaining('the patch has no part'),
    ])
  })
})
