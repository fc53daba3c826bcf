import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { type EmbeddedBackend, startEmbeddedBackend } from '../../src/dev/embedded-backend.js'
import { imageHeader } from '../../src/image-header.js'
import type { Part } from '../../src/outcome.js'
import { statusOf } from './support/answers.js'
import { endPrograms, startWorkerProcess } from './support/worker-process.js'

let backend: EmbeddedBackend

beforeAll(async () => {
  backend = await startEmbeddedBackend()
  await startWorkerProcess(backend, {
    SANDBOX_PYTHON: '/usr/bin/python3', // which has Debian's matplotlib
    SANDBOX_PRELOAD: 'matplotlib.pyplot',
    RESULT_MAX_BYTES: '300000',
  })
})

afterAll(async () => {
  await endPrograms()
  await backend.close()
})

async function partsOf(code: string): Promise<Part[]> {
  const answer = await backend.waitForAnswer(backend.pushCode(code).fcall_id, 30_000)
  expect(statusOf(answer)).toBe('completed')
  if (typeof answer.content === 'string') throw new Error(`the answer is a text: ${answer.content}`)
  return [...answer.content]
}

describe('what a run shows', () => {
  it('reaches the backend as parts: the text, then a figure and what is displayed around it', async () => {
    const [text, before, figure, ...rest] = await partsOf(
      'import matplotlib.pyplot as plt\nprint("printed")\ndisplay("before")\nplt.plot([1, 2])\nplt.show()\n1 + 1',
    )
    expect(text).toEqual({ m_type: 'text', m_content: 'printed\n2\n[shown below: 1 image, 1 text]' })
    expect(before).toEqual({ m_type: 'text', m_content: 'before' })
    expect(figure?.m_type).toBe('image/png')
    expect(imageHeader(Buffer.from(figure?.m_content ?? '', 'base64'))).toEqual({
      mime: 'image/png',
      width: 640,
      height: 480,
    })
    expect(rest).toEqual([])
  })

  it('loses its largest images first where the answer would be too large, and says so', async () => {
    const [text, ...images] = await partsOf(
      'import matplotlib.pyplot as plt, numpy as np\nplt.plot([1])\nplt.show()\nplt.imshow(np.random.rand(900, 900))\nplt.gcf().set_size_inches(10, 8)\nplt.gcf().set_dpi(150)',
    )
    expect(text?.m_content).toMatch(
      /^\[shown below: 2 images\]\n\[left out, as the answer would be too large: image\/\w+ \(/,
    )
    expect(images.map(image => image.m_type)).toEqual(['image/png'])
  })
})
