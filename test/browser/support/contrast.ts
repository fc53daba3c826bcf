import type { Page } from 'playwright-core'

/**
 * Texts of the page whose colour does not stand out from what is behind it by 4.5 to 1 (WCAG 2, AA), each with its ratio. Of what is behind,
 * only plain colours count, half transparent ones mixed. Colours count as they will be: a button that was just pressed fades from one pair of
 * colours to the other, and half way there its text and its ground are the same.
 */
export async function faintTexts(page: Page): Promise<string[]> {
  return await page.evaluate(FAINT_TEXTS)
}

/** Runs in the page, where this project's TypeScript knows no types. */
const FAINT_TEXTS = `(() => {
  for (const fade of document.getAnimations()) if (fade.effect.getComputedTiming().endTime !== Infinity) fade.finish()
  const canvas = document.createElement('canvas').getContext('2d', { willReadFrequently: true })
  const rgba = colour => {
    canvas.clearRect(0, 0, 1, 1)
    canvas.fillStyle = colour
    canvas.fillRect(0, 0, 1, 1)
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data
    return [r, g, b, a / 255]
  }
  const over = (top, below) => below.map((channel, n) => (n === 3 ? 1 : top[n] * top[3] + channel * (1 - top[3])))
  const groundOf = element => {
    const layers = []
    for (let at = element; at !== null; at = at.parentElement) layers.unshift(rgba(getComputedStyle(at).backgroundColor))
    return layers.reduce((below, layer) => over(layer, below), [255, 255, 255, 1])
  }
  const light = ([r, g, b]) => {
    const [x, y, z] = [r, g, b].map(c => (c / 255 <= 0.04045 ? c / 255 / 12.92 : ((c / 255 + 0.055) / 1.055) ** 2.4))
    return 0.2126 * x + 0.7152 * y + 0.0722 * z
  }
  const found = []
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT)
  for (let node = walker.nextNode(); node !== null; node = walker.nextNode()) {
    const element = node.parentElement
    if (node.data.trim() === '' || !element.checkVisibility() || element.closest('noscript, :disabled, .visually-hidden')) continue
    const ground = groundOf(element)
    const ink = over(rgba(getComputedStyle(element).color), ground)
    const [dark, bright] = [light(ink), light(ground)].sort((a, b) => a - b)
    const ratio = (bright + 0.05) / (dark + 0.05)
    if (ratio < 4.5) found.push(node.data.trim().slice(0, 40) + ' ' + ratio.toFixed(2))
  }
  return [...new Set(found)]
})()`
