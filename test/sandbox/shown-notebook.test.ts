import { describe, expect, it } from 'vitest'
import { sharedRoom } from './support/shared-room.js'
import { kinds, SHOWING, texts } from './support/shown.js'

describe.each(['namespaces', 'landlock'] as const)('code for notebooks in the %s tier', tier => {
  const room = sharedRoom({ ...SHOWING, tier })
  const run = (code: string) => room().run(code)

  it('works with what IPython has, also where it is not installed', async () => {
    const report = await run(`import IPython
from IPython.display import display, HTML, Markdown, SVG, Image, clear_output
from IPython.core.display import display as old
clear_output(wait=True)
display(Markdown("# a"), HTML("<i>b</i>"), SVG("<svg/>"))
handle = display("c", display_id=True)
handle.update("d")
display({"text/plain": "e", "text/html": "<b>f</b>"}, raw=True)
from PIL import Image
Image_ = Image
Image_.new("RGB", (5, 4)).save("a.png")
import matplotlib.pyplot, pandas
from IPython.display import Image
old(Image("a.png"))
Image(url="https://example.com/a.png")
print(IPython.get_ipython())`)
    expect(report).toMatchObject({ status: 'completed', stdout: { text: 'None\n' }, stderr: { text: '' } })
    expect(texts(report)).toEqual(['# a\nb\n<svg/>\nc\nd\ne'])
    expect(kinds(report)).toEqual(['text', '5x4'])
  })

  it('works with what only a browser could show, which is said', async () => {
    const report = await run(`import IPython
from pathlib import Path
from IPython.display import *
from IPython.display import (Audio, Video, IFrame, Javascript, FileLink, GeoJSON, DisplayObject, update_display, display_html,
    display_png, publish_display_data, set_matplotlib_formats, set_matplotlib_close)
from PIL import Image as Picture
set_matplotlib_formats("svg")
Picture.new("RGB", (5, 4)).save("a.png")
IPython.display.display(IPython.display.Image(Path("a.png")))
display(Audio([0.5], rate=8000), Video("v.mp4"), IFrame(src="https://example.com/", width=1, height=1), FileLink(Path("f")))
display_html("<b>b</b>", raw=True)
update_display(1, display_id="x")
publish_display_data({"text/plain": "p"})`)
    expect(report).toMatchObject({ status: 'completed', stderr: { text: '' }, shown: { leftOut: [] } })
    expect(kinds(report)).toEqual(['5x4', 'text'])
    expect(texts(report)[0]?.split('\n')).toEqual([
      '[Audio can not be shown here]',
      '[Video can not be shown here: v.mp4]',
      '[IFrame can not be shown here: https://example.com/]',
      '[FileLink can not be shown here: f]',
      'b',
      '1',
      'p',
    ])
  })
})
