import { expect } from 'vitest'
import { imageHeader } from '../../../src/image-header.js'
import type { Ran } from './room.js'

const MIB = 1024 * 1024
/** For rooms in which things are shown: Debian's Python has matplotlib, pandas and Pillow. */
export const SHOWING = { python: '/usr/bin/python3', memoryBytes: 512 * MIB, cpuMs: 20_000, slots: 2 }

/** "text" or "640x480" and the kind where it is no PNG, of each part in its order. */
export function kinds({ shown }: Ran): string[] {
  return shown.parts.map(({ m_type, m_content }) => {
    if (m_type === 'text') return 'text'
    const header = imageHeader(Buffer.from(m_content, 'base64'))
    if (typeof header === 'string') return header
    expect(header.mime).toBe(m_type)
    return `${header.width}x${header.height}${header.mime === 'image/jpeg' ? ' JPEG' : ''}`
  })
}

export function texts({ shown }: Ran): string[] {
  return shown.parts.filter(part => part.m_type === 'text').map(part => part.m_content)
}
