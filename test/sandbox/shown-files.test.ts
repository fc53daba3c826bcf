import { describe, expect, it } from 'vitest'
import type { InputFile } from '../../src/sandbox/inputs.js'
import { png } from '../support/images.js'
import { sharedRoom } from './support/shared-room.js'
import { kinds, SHOWING } from './support/shown.js'

const PILLOW = 'from PIL import Image\n'

describe('images among the files of a run', () => {
  const room = sharedRoom({
    ...SHOWING,
    tier: 'namespaces',
    fileBytes: 32 * 1024 * 1024,
    workspaceBytes: 64 * 1024 * 1024,
  })
  const run = async (code: string, { inputs = [] as InputFile[], contents = 'images' as 'images' | 'kept' } = {}) => {
    const report = await room().run(code, { files: { inputs, contents } })
    report.collected?.release()
    expect(report).toMatchObject({ status: 'completed', stderr: { text: '' } })
    return report
  }

  it('are shown at the size that models take, and stay as they are', async () => {
    const report = await run(
      `import matplotlib.pyplot as plt, os
plt.figure(figsize=(12, 8))
plt.plot([1, 2])
plt.savefig("p.png", dpi=300)
plt.close()
${PILLOW}print(Image.open("p.png").size, os.path.getsize("p.png"))`,
      { contents: 'kept' },
    )
    expect(kinds(report)).toEqual(['1568x1045'])
    expect(report.shown.leftOut).toEqual([])
    expect(report.stdout.text).toBe(`(3600, 2400) ${report.files[0]?.bytes}\n`)
    expect(report.collected?.files[0]?.content?.readUInt32BE(16)).toBe(3600)
  })

  it.each<[string, string, string[], RegExp[]]>([
    ['small, as they are', 'Image.new("L", (30, 20)).save("a.png")', ['30x20'], []],
    ['in a folder', 'import os\nos.mkdir("a")\nImage.new("L", (2000, 20)).save("a/a.png")', ['1568x16'], []],
    ['a JPEG', 'Image.new("L", (20, 2000)).save("a.jpg")', ['16x1568'], []],
    [
      'of more bytes than are taken from the sandbox where nothing is kept',
      'import os\nImage.frombytes("RGB", (1800, 1800), os.urandom(9_720_000)).save("a.png")',
      [expect.stringMatching(/^\d+x\d+ JPEG$/) as string],
      [],
    ],
    ['once, where they were displayed', 'i = Image.new("L", (2000, 20))\ni.save("a.png")\ndisplay(i)', ['1568x16'], []],
    [
      'in numbers that are shown, with a remark',
      'i = Image.new("I;16", (2000, 20))\ni.putpixel((0, 0), 900)\ni.save("a.png")',
      ['1568x16'],
      [/^a\.png holds numbers: 0 is shown as black, 900 as white$/],
    ],
    [
      'not decoded, of more pixels than a run may decode',
      'Image.new("1", (9000, 9000)).save("a.png")',
      [],
      [/^a\.png is 9000 x 9000 pixels/],
    ],
    [
      'not decoded, of another kind than their name says',
      'Image.new("L", (2000, 20)).save("a.png", "TIFF")',
      [],
      [/^a\.png is a TIFF image/],
    ],
    ['damaged', 'Image.new("L", (2000, 20)).save("a.png")\nopen("a.png", "r+b").truncate(60)', [], [/cut off|damaged/]],
    [
      'not behind a link, or with a second name',
      'import os\nImage.new("L", (2000, 20)).save("/tmp/a.png")\nos.symlink("/tmp/a.png", "b.png")\nImage.new("L", (2000, 20)).save("c.png")\nos.link("c.png", "d.png")',
      [],
      [],
    ],
    [
      'not read from what would wait',
      'import os\nos.mkfifo("a.png")\nImage.new("L", (2000, 20)).save("b.png")',
      ['1568x16'],
      [],
    ],
    [
      'at most eight',
      'for n in range(12): Image.new("L", (2000, 20), n).save(f"{n:02}.png")',
      Array(8).fill(expect.stringMatching(/^1568x/)) as string[],
      Array(4).fill(/^\d\d\.png beyond the 8 images/) as RegExp[],
    ],
  ])('are shown %s', async (_what, code, expected, leftOut) => {
    const report = await run(PILLOW + code)
    expect(kinds(report)).toEqual(expected)
    expect(report.shown.leftOut.map(({ name, reason }) => `${name} ${reason}`)).toEqual(
      leftOut.map(one => expect.stringMatching(one) as string),
    )
  })

  it('are not those of earlier calls that the code has left alone', async () => {
    const inputs = ['old.png', 'new.png'].map(path => ({ path, read: async () => png(2000, 20) }))
    const report = await run(`${PILLOW}Image.open("new.png").rotate(90, expand=True).save("new.png")`, { inputs })
    expect(kinds(report)).toEqual(['16x1568'])
  })
})
