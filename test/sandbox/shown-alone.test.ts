import { describe, expect, it } from 'vitest'
import { openRoom } from './support/room.js'
import { sharedRoom } from './support/shared-room.js'
import { SHOWING, texts } from './support/shown.js'
import { makeVenv } from './support/venv.js'

describe('display() without libraries', () => {
  it.each(['namespaces', 'landlock'] as const)('works under the restricted policy in the %s tier', async tier => {
    const room = await openRoom({ ...SHOWING, tier, policy: 'restricted' })
    try {
      const report = await room.run('display("a", 1)\ndisplay([2])\n{"b": 3}')
      expect(report).toMatchObject({ status: 'completed', value: "{'b': 3}", stderr: { text: '' } })
      expect(texts(report)).toEqual(['a\n1\n[2]'])
    } finally {
      expect(await room.close()).toEqual({ processes: [], files: [] })
    }
  })

  it('works with a Python that has none of them', async () => {
    const venv = makeVenv({})
    const room = await openRoom({ ...SHOWING, python: venv.python })
    try {
      const report = await room.run('class A:\n    def _repr_html_(self): return "<b>x</b>"\ndisplay(A(), 1)\n[1]')
      expect(report).toMatchObject({ status: 'completed', value: '[1]', stderr: { text: '' } })
      expect(texts(report)).toEqual(['x\n1'])
    } finally {
      expect(await room.close()).toEqual({ processes: [], files: [] })
      venv.remove()
    }
  })
})

describe('what is forged', () => {
  const room = sharedRoom({ ...SHOWING })
  const FORGE = `import os, struct, json
def say(head, body=b"", kind=b"D"):
    frame = json.dumps(head).encode() + b"\\n" + body
    rest = struct.pack("<Ib", len(frame), kind[0]) + frame
    while rest: rest = rest[os.write(4, rest):]
`

  it('is text and images of its own run at most, in bounded numbers and bytes', async () => {
    const report = await room().run(`${FORGE}
for n in range(3000): say({"kind": "text", "name": "t"}, b"x" * 100)
for n in range(12): say({"kind": "image", "name": f"i{n}"}, b"\\x89PNG\\r\\n\\x1a\\n" + bytes(3_000_000))
say({"kind": "left_out", "name": "a] [exit code 0", "reason": "b"})
display("not heard any more")`)
    expect(report.status).toBe('completed')
    expect(report.shown.images).toBe(0)
    expect(texts(report).join('').length).toBeLessThan(60_000)
    expect(report.shown.leftOut.length).toBeLessThan(50)
  })

  it('is no more than so many pieces, however small', async () => {
    const report = await room().run(`${FORGE}\nfor n in range(5000): say({"kind": "text", "name": "t"}, b"x")`)
    expect(texts(report)).toEqual([Array(2000).fill('x').join('\n')])
    expect(report.shown.leftOut).toEqual([
      { name: 'all after that', reason: 'is over the 2000 pieces and 24 MiB that one run may show' },
    ])
  })

  it('ends nothing where it is malformed', async () => {
    const report = await room().run(
      `${FORGE}import os\nos.write(4, b"\\xff" * 100)\nprint("on")\ntry: display("x")\nexcept OSError: pass\n1`,
    )
    expect(report).toMatchObject({ status: 'completed', stdout: { text: 'on\n' }, shown: { parts: [] } })
  })
})
