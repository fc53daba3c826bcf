import { execFileSync } from 'node:child_process'
import { describe, expect, it } from 'vitest'
import type { Ran } from './support/room.js'
import { sharedRoom } from './support/shared-room.js'
import { kinds, SHOWING, texts } from './support/shown.js'

const PLOT = 'import matplotlib.pyplot as plt\nplt.plot([1, 2, 3])\n'
const PILLOW = 'from PIL import Image\n'

/** Colour of the pixel in the middle of an image, as it is decoded by a library. */
function middle(part: Ran['shown']['parts'][number] | undefined): number[] {
  const code =
    'import base64, io, sys, json\nfrom PIL import Image\ni = Image.open(io.BytesIO(base64.b64decode(sys.stdin.read()))).convert("RGBA")\n' +
    'print(json.dumps(i.getpixel((i.width // 2, i.height // 2))))'
  return JSON.parse(
    execFileSync(SHOWING.python, ['-c', code], { input: part?.m_content ?? '', encoding: 'utf8' }),
  ) as number[]
}

describe.each([
  ['namespaces', ['matplotlib.pyplot', 'pandas']],
  ['landlock', []], // where the code is the first to import them
] as const)('what is shown in the %s tier', (tier, preload) => {
  const room = sharedRoom({ ...SHOWING, tier, preload: [...preload] })
  const run = (code: string, wallMs = 20_000) => room().run(code, { wallMs })
  /** Images among the files are shown as well. */
  const runWithFiles = async (code: string) => {
    const report = await room().run(code, { files: { inputs: [], contents: 'images' } })
    report.collected?.release()
    return report
  }

  it.each<[string, string, string[]]>([
    ['a figure that is open at the end', PLOT, ['640x480']],
    ['a figure for which show() is called', `${PLOT}plt.show()`, ['640x480']],
    [
      'each figure of its own between calls of show()',
      `${PLOT}plt.show()\nplt.figure(figsize=(3, 2))\nplt.plot([1])\nplt.show()`,
      ['640x480', '300x200'],
    ],
    [
      'open figures in the order of their numbers',
      `${PLOT}plt.figure(5, figsize=(1, 2)).text(0, 0, "x")\nplt.figure(3, figsize=(2, 1)).text(0, 0, "x")`,
      ['640x480', '200x100', '100x200'],
    ],
    ['a figure as last value, once', `${PLOT}plt.gcf()`, ['640x480']],
    ['a figure given to display() and left open, once', `${PLOT}display(plt.gcf())`, ['640x480']],
    ['a figure given to display() and shown, once', `${PLOT}display(plt.gcf())\nplt.show()`, ['640x480']],
    ['a figure again that was changed since', `${PLOT}display(plt.gcf())\nplt.title("new")`, ['640x480', '640x480']],
    ['a figure by its own show()', `${PLOT}plt.gcf().show()`, ['640x480']],
    [
      'a figure that is not known to pyplot',
      'from matplotlib.figure import Figure\nf = Figure(figsize=(2, 2))\nf.subplots().plot([1])\nf',
      ['200x200'],
    ],
    ['a figure that does not wait and is closed', `${PLOT}plt.show(block=False)\nplt.close()`, ['640x480']],
    [
      'an animation by its last state alone',
      `${PLOT}for n in range(3):\n    plt.plot([n])\n    plt.pause(0.001)`,
      ['640x480'],
    ],
    ['a figure under another backend', `import matplotlib\nmatplotlib.use("svg")\n${PLOT}plt.show()`, ['640x480']],
    ['a wide figure with fewer dots', `${PLOT}plt.gcf().set_size_inches(40, 10)`, ['1568x392']],
    ['a figure of many dots with fewer', `${PLOT}plt.gcf().set_dpi(1000)`, ['1568x1176']],
    [
      'a figure that was made with a cut edge as it is',
      `${PLOT}plt.rcParams["savefig.bbox"] = "tight"\nplt.show()`,
      [expect.stringMatching(/^5\d\dx4\d\d$/) as string],
    ],
    ['no figure that is empty', `${PLOT}plt.show()\nplt.gcf()\npass`, []],
    ['no figure that was closed', `${PLOT}plt.close()`, []],
    ['no figure that was only saved', `${PLOT}plt.savefig("a.png")\nplt.close()`, []],
    ['a plot of pandas', 'import pandas as pd\npd.DataFrame({"a": [1, 2]}).plot()', ['640x480']],
  ])('is %s', async (what, code, expected) => {
    const report = await run(code)
    expect(report).toMatchObject({ status: 'completed', stderr: { text: '' } })
    expect(report.shown.leftOut).toEqual([])
    expect(kinds(report)).toEqual(what.startsWith('no figure that is empty') ? ['640x480'] : expected)
  })

  it.each<[string, string, string[]]>([
    ['after an exception', `${PLOT}1 / 0`, ['640x480']],
    ['after sys.exit', `${PLOT}import sys\nsys.exit(3)`, ['640x480']],
    ['before a crash', `${PLOT}plt.show()\nplt.plot([1])\nimport os\nos.kill(os.getpid(), 11)`, ['640x480']],
    [
      'that a thread makes as the last',
      `${PLOT}plt.close()\nimport threading, time\ndef draw():\n    time.sleep(0.3)\n    plt.plot([1])\nthreading.Thread(target=draw).start()\n1 / 0`,
      ['640x480'],
    ],
  ])('is a figure %s', async (_when, code, expected) => {
    const report = await run(code)
    expect(['failed', 'crashed']).toContain(report.status)
    expect(kinds(report)).toEqual(expected)
  })

  it('is kept when the time is over', async () => {
    const report = await run(`${PLOT}plt.show()\ndisplay("text")\nprint("x")\nwhile True: pass`, 5_000)
    expect(report.status).toBe('timed_out')
    expect(kinds(report)).toEqual(['640x480', 'text'])
  })

  it('is in the order of its showing, with texts that follow each other as one', async () => {
    const report = await run(
      `${PLOT}display("one", 2)\ndisplay(plt.gcf(), [3])\nplt.close()\n${PILLOW}Image.new("RGB", (30, 20), "red")`,
    )
    expect(kinds(report)).toEqual(['text', '640x480', 'text', '30x20'])
    expect(texts(report)).toEqual(['one\n2', '[3]'])
    expect(middle(report.shown.parts.at(-1))).toEqual([255, 0, 0, 255])
    expect(report.value).toMatch(/^<PIL/)
  })

  it('is known to have been saved, so that a file of it is not shown once more', async () => {
    const { shown, status } = await runWithFiles(
      `${PLOT}plt.savefig("before.png")\nplt.show()\nplt.plot([1])\nf = plt.gcf()\ndisplay(f)\nf.savefig("after")\nplt.title("t")`,
    )
    expect(status).toBe('completed')
    expect(shown.images).toBe(3)
  })

  it.each<[string, string, number]>([
    [
      'displayed, in each step of a loop',
      'for n in range(3):\n    line.set_ydata([n, 1, 1])\n    f.canvas.draw()\n    display(f)',
      3,
    ],
    ['shown', 'plt.show(block=False)\nline.set_ydata([0, 1, 1])\nf.canvas.draw()', 2],
    ['shown, by a pause', 'plt.show(block=False)\nline.set_ydata([0, 1, 1])\nplt.pause(0.001)', 2],
    ['saved, besides the file', 'f.savefig("a.png")\nline.set_ydata([0, 1, 1])\nf.canvas.draw()', 2],
    ['saved, but not where that drew no change', 'f.savefig("a.png")\nf.canvas.draw()', 1],
    ['saved, but not where it was only saved elsewhere', 'f.savefig("a.png")\nimport io\nf.savefig(io.BytesIO())', 1],
  ])('is what a figure has become that was drawn with a change since it was %s', async (_when, code, images) => {
    const { shown, status } = await runWithFiles(
      `import matplotlib.pyplot as plt\nf, axes = plt.subplots()\nline, = axes.plot([1, 2, 3])\n${code}`,
    )
    expect(status).toBe('completed')
    expect(new Set(shown.parts.map(part => part.m_content)).size).toBe(images)
    expect(shown.images).toBe(images)
  })

  it.each([
    [
      'was drawn into',
      `${PILLOW}plt.savefig("a.png")\ni = Image.open("a.png")\ni.putpixel((0, 0), (255, 0, 0, 255))\ni.save("a.png")`,
    ],
    ['holds another figure', 'plt.savefig("a.png")\nplt.show()\nplt.plot([3, 1])\nplt.savefig("a.png")\nplt.close()'],
  ])('is a figure, and the file to which it was saved where that %s since', async (_what, code) => {
    const { shown, status } = await runWithFiles(PLOT + code)
    expect(status).toBe('completed')
    expect(new Set(shown.parts.map(part => part.m_content)).size).toBe(2)
  })

  it(`is at most eight images, and the others are not drawn`, async () => {
    const report = await run(`${PLOT}for n in range(10):\n    plt.plot([n])\n    plt.show()`)
    expect(kinds(report)).toEqual(Array(8).fill('640x480'))
    expect(report.shown.leftOut.map(one => one.name)).toEqual(['figure 1', 'figure 1'])
    expect(report.shown.leftOut[0]?.reason).toBe('beyond the 8 images that are shown')
  })

  it.each([
    '1',
    'L',
    'LA',
    'P',
    'PA',
    'RGB',
    'RGBA',
    'RGBX',
    'CMYK',
    'YCbCr',
    'LAB',
    'HSV',
    'I',
    'F',
    'I;16',
    'La',
    'RGBa',
  ])('is a picture of the mode %s', async mode => {
    const report = await run(`${PILLOW}Image.new("${mode}", (20, 10))`)
    expect(report.shown.leftOut).toEqual([])
    expect(kinds(report)).toEqual(['20x10'])
  })

  it.each<[string, string, number[]]>([
    ['CMYK', 'Image.new("CMYK", (9, 9), (0, 255, 255, 0))', [254, 0, 0, 255]],
    ['numbers of 16 bits', 'i = Image.new("I;16", (9, 1), 1000)\ni.putpixel((4, 0), 3000)\ni', [255, 255, 255, 255]],
    ['fractions', 'i = Image.new("F", (9, 1), 0.5)\ni.putpixel((4, 0), -0.5)\ni', [0, 0, 0, 255]],
    [
      'numbers beside some that are none',
      'i = Image.new("F", (9, 1), 5)\ni.putpixel((4, 0), 9)\ni.putpixel((0, 0), float("nan"))\ni.putpixel((1, 0), float("inf"))\ni',
      [255, 255, 255, 255],
    ],
    ['half transparent colour', 'Image.new("RGBA", (9, 9), (0, 0, 255, 128))', [0, 0, 255, 128]],
  ])('is a picture of %s in its colours', async (_what, code, colour) => {
    const report = await run(PILLOW + code)
    const found = middle(report.shown.parts[0])
    for (const [n, value] of colour.entries()) expect(Math.abs((found[n] ?? -9) - value)).toBeLessThan(3)
  })

  it.each([
    ['putpixel((0, 0), float("nan"))', 'holds numbers; 1 of 9 are not finite, and NaN is shown as black'],
    [
      'putpixel((0, 0), float("nan")); i.putpixel((1, 0), 7)',
      'holds numbers: 5 is shown as black, 7 as white; 1 of 9 are not finite, and NaN is shown as black',
    ],
  ])('is a picture with NaN, after %s, with a remark', async (change, reason) => {
    const report = await run(`${PILLOW}i = Image.new("F", (9, 1), 5)\ni.${change}\ni`)
    expect(report.shown.leftOut).toEqual([{ name: 'image 1', reason }])
  })

  it.each<[string, string, string[], string[]]>([
    ['a large picture', 'Image.new("P", (4000, 1000))', ['1568x392'], []],
    ['a large picture that is transparent', 'Image.new("RGBA", (10, 2000), (0, 0, 0, 0))', ['8x1568'], []],
    [
      'noise as JPEG, as it is smaller',
      'import os\nImage.frombytes("RGB", (1000, 1000), os.urandom(3_000_000))',
      ['1000x1000 JPEG'],
      [],
    ],
    [
      'a JPEG as JPEG',
      'import os\nImage.frombytes("RGB", (90, 90), os.urandom(24_300)).save("a.jpg")\nImage.open("a.jpg")',
      ['90x90 JPEG'],
      [],
    ],
    [
      'a JPEG that is larger as one as PNG',
      'Image.new("RGB", (90, 90)).save("a.jpg")\nImage.open("a.jpg")',
      ['90x90'],
      [],
    ],
    [
      'the first frame of an animation',
      'f = [Image.new("P", (9, 9), n) for n in range(3)]\nf[0].save("a.gif", save_all=True, append_images=f[1:])\ni = Image.open("a.gif")\ni.seek(1)\ndisplay(i)\nprint(i.tell())',
      ['9x9'],
      ['is an animation: the first of its 3 frames is shown'],
    ],
    [
      'not what has no pixels',
      'Image.new("RGB", (0, 3))',
      [],
      [expect.stringMatching(/could not be shown|nothing to be seen/) as string],
    ],
  ])('is %s', async (_what, code, expected, reasons) => {
    const report = await run(PILLOW + code)
    expect(report).toMatchObject({ status: 'completed', stderr: { text: '' } })
    expect(kinds(report)).toEqual(expected)
    expect(report.shown.leftOut.map(one => one.reason)).toEqual(reasons)
    for (const part of report.shown.parts) expect(part.m_content.length).toBeLessThan(1_400_000)
  })

  describe('of an object', () => {
    const PNG =
      'import io\nfrom PIL import Image\nf = io.BytesIO()\nImage.new("RGB", (7, 5)).save(f, "PNG")\npng = f.getvalue()\n'
    const object = (methods: Record<string, string>) =>
      `${PNG}class A:\n    def __repr__(self): return "A()"\n${Object.entries(methods)
        .map(([name, body]) => `    def ${name}(self, **_): ${body}\n`)
        .join('')}`

    it.each<[string, Record<string, string>, string[], string | null]>([
      ['a PNG', { _repr_png_: 'return png', _repr_html_: 'return "<b>x</b>"' }, ['7x5'], null],
      ['a PNG as base64', { _repr_png_: 'import base64; return base64.b64encode(png).decode()' }, ['7x5'], null],
      ['a PNG with its metadata', { _repr_png_: 'return png, {"width": 7}' }, ['7x5'], null],
      ['a PNG of a bundle', { _repr_mimebundle_: 'return {"text/html": "x", "image/png": png}' }, ['7x5'], null],
      ['Markdown', { _repr_markdown_: 'return "**a**"', _repr_svg_: 'return "<svg/>"' }, [], '**a**'],
      ['SVG, as its source', { _repr_svg_: 'return "<svg/>"', _repr_html_: 'return "x"' }, ['text'], null],
      [
        'HTML, as text',
        { _repr_html_: 'return "<table><tr><td>1<td>&lt;2</table><p>a  b</p><script>x</script>"' },
        [],
        '1 | <2\n\na b',
      ],
      ['what is left of HTML that is only a program', { _repr_html_: 'return "<script>x</script>"' }, [], null],
      ['nothing but its repr', {}, [], null],
      ['nothing of what it does not have', { _repr_png_: 'return None', _repr_html_: 'return None' }, [], null],
      ['what it shows by itself', { _ipython_display_: 'display("mine")' }, ['text'], null],
    ])('is %s', async (_what, methods, expected, text) => {
      const report = await run(`${object(methods)}A()`)
      expect(report).toMatchObject({ status: 'completed', value: 'A()', valueText: text, stderr: { text: '' } })
      expect(report.shown.leftOut).toEqual([])
      expect(kinds(report)).toEqual(expected)
    })

    it('is the next best where a method fails, and what failed is said', async () => {
      const report = await run(
        `${object({ _repr_png_: 'raise ValueError("no")', _repr_html_: 'return "<b>x</b>"' })}A()`,
      )
      expect(report).toMatchObject({ status: 'completed', valueText: 'x' })
      expect(report.shown.leftOut).toEqual([
        { name: 'the last value', reason: 'could not be shown by _repr_png_(): ValueError: no' },
      ])
    })

    it.each(['self, include, exclude', 'self', 'self, **kwargs'])(
      'is of a bundle that is made by a method with the parameters (%s)',
      async parameters => {
        const report = await run(
          `class A:\n    def _repr_mimebundle_(${parameters}): return {"text/markdown": "**a**"}\nA()`,
        )
        expect(report).toMatchObject({ status: 'completed', valueText: '**a**', shown: { leftOut: [] } })
      },
    )

    it.each([
      [
        'an estimator',
        `def _repr_mimebundle_(self, **kwargs): return {"text/plain": repr(self), "text/html": html}
    @property
    def _repr_html_(self): raise AttributeError("only as a diagram")
html = '<style>#sk-1 {}</style><div id="sk-1" class="sk-top-container"><div class="sk-text-repr-fallback"><pre>A(b=1)</pre>' \\
    '<b>In a Jupyter environment, please rerun this cell.</b></div><div class="sk-container" hidden><div><input type="checkbox">' \\
    '<label>A</label><table><tr><td>b<td>1</table><div><pre>A(b=1)</pre></div></div></div></div>'`,
      ],
      [
        'an array with labels',
        `def _repr_html_(self): return html
html = "<div><svg style='position: absolute'></svg><style>.xr {}</style><pre class='xr-text-repr-fallback'>A(b=1)</pre>" \\
    "<div class='xr-wrap' style='display:none'><div><div>A</div><ul hidden><li>b<img></ul></div>more</div></div>"`,
      ],
    ])('is the plain text alone of %s, whose page is hidden without its style', async (_what, methods) => {
      const report = await run(`class A:\n    def __repr__(self): return "A(b=1)"\n    ${methods}\nA()`)
      expect(report).toMatchObject({ status: 'completed', value: 'A(b=1)', valueText: 'A(b=1)' })
      expect(report.shown).toMatchObject({ parts: [], leftOut: [] })
    })

    it.each([
      ['a table', '<table><tr><td>1<td>2</table>', 'plain', '1 | 2'],
      ['HTML where the plain text says nothing', '<b>x</b>', '<A object at 0x7f>', 'x'],
      ['what is seen after something hidden', 'a<input hidden>b<div hidden><p>c<div>d</div>e</div>f', '', 'abf'],
    ])('is %s', async (_what, html, plain, text) => {
      const bundle = JSON.stringify({ 'text/html': html, 'text/plain': plain })
      const report = await run(`class A:\n    def _repr_mimebundle_(self): return ${bundle}\nA()`)
      expect(report).toMatchObject({ status: 'completed', valueText: text })
    })

    it('is left out where its SVG is large, or its PNG is none', async () => {
      const svg = await run(`${object({ _repr_svg_: 'return "<svg>" + "x" * 20_000' })}A()`)
      expect(svg.shown.leftOut[0]?.reason).toMatch(/^is an SVG image of 20005 characters, .* make it a PNG$/)
      const png = await run(`${object({ _repr_png_: 'return b"none"' })}A()`)
      expect(png.shown).toMatchObject({ parts: [], leftOut: [{ name: 'image 1' }] })
    })

    it('is not asked of a class, or of what answers to any name', async () => {
      const report = await run(
        `${object({ _repr_html_: 'return "x"' })}from unittest.mock import MagicMock\ndisplay(A, MagicMock())`,
      )
      expect(report.shown.leftOut).toEqual([])
      expect(texts(report)[0]).toMatch(/^<class '__main__.A'>\n<MagicMock id=/)
    })
  })

  it('never fails a run that was complete', async () => {
    const report = await run(
      `${PLOT}from matplotlib.artist import Artist
class Bad(Artist):
    def draw(self, renderer): raise RuntimeError("can't draw")
plt.gca().add_artist(Bad())
class A:
    def __repr__(self): raise KeyError("r")
    def __str__(self): raise KeyError("s")
display(A())
A()`,
    )
    expect(report).toMatchObject({ status: 'completed', exitCode: 0, stderr: { text: '' } })
    expect(report.shown.leftOut).toEqual([
      { name: 'display 1', reason: "could not be shown: KeyError: 'r'" },
      { name: 'the last value', reason: "could not be shown: KeyError: 'r'" },
      { name: 'figure 1', reason: "could not be drawn: RuntimeError: can't draw" },
    ])
  })

  it('is nothing of a child that the code forks', async () => {
    if (tier === 'landlock') return // which has no children
    const report = await run(`${PLOT}import os\nif os.fork() == 0: pass\nelse: os.wait()\nNone`)
    expect(kinds(report)).toEqual(['640x480'])
  })
})
