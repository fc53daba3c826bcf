import { constants } from 'node:fs'
import { access, mkdir, open } from 'node:fs/promises'
import path from 'node:path'
import type { CollectedFiles, Part } from '../outcome.js'
import { fileSize } from '../quantities.js'
import { showOnOneLine } from '../tool/readable-text.js'

export interface FilesToSave {
  /** Of the outcome: its images are saved. */
  readonly parts: readonly Part[]
  /** What the code made: all of it is saved to `output`, without one its images. null: nothing. */
  readonly collected: Pick<CollectedFiles, 'files' | 'isAll'> | null
  /** A folder, made where it is missing; null: the current one, and images alone. */
  readonly output: string | null
}

const EXTENSIONS: Readonly<Record<string, string>> = { 'image/png': 'png', 'image/jpeg': 'jpg' }
const NAMES_TRIED = 1_000
const NAMES_SHOWN = 5
const NO_NAME = 'no name for a file outside of the sandbox, as it is hidden or leads elsewhere'

/** The folder of --output can't be had; the message names it and says why. */
export class OutputUnusable extends Error {
  override readonly name = 'OutputUnusable'
}

/** Makes the folder where it is missing. Rejects with OutputUnusable where nothing can be written into it. */
export async function prepareOutput(folder: string): Promise<void> {
  try {
    await mkdir(folder, { recursive: true })
    await access(folder, constants.W_OK | constants.X_OK)
  } catch (error) {
    throw new OutputUnusable(`--output ${folder}: ${whyNot(error as NodeJS.ErrnoException)}`, { cause: error })
  }
}

export interface SavedFiles {
  /** For each file a line for a person; then what was not saved. */
  readonly lines: readonly string[]
  /** Whether anything was to be saved and is not: with `output`, of all that the code made. */
  readonly hasFailed: boolean
}

/**
 * Writes what a run has shown and made, never over anything: of a name that is taken, name-2 and so on is tried. Never rejects: what
 * the file system refuses is in the lines, and the others are saved.
 */
export async function saveFiles({ parts, collected, output }: FilesToSave): Promise<SavedFiles> {
  const folder = output ?? '.'
  const lines: string[] = []
  let hasFailed = false
  const save = async (wanted: string, bytes: Buffer) => {
    const line = await write(wanted, bytes).catch((error: NodeJS.ErrnoException) => {
      hasFailed = true
      return `not saved: ${wanted}: ${whyNot(error)}`
    })
    lines.push(line)
  }
  const files = collected?.files ?? []
  const images = parts.flatMap(part => {
    const extension = EXTENSIONS[part.m_type]
    return extension === undefined ? [] : [{ extension, bytes: Buffer.from(part.m_content, 'base64') }]
  })
  const left: string[] = []
  const nameless: string[] = []
  for (const { path: name, mime, content, why } of files) {
    const segments = safeSegments(name)
    const isShown = content !== null && images.some(image => image.bytes.equals(content))
    // A model was shown a smaller copy of a large one.
    if (segments !== null && content !== null && (output !== null || mime in EXTENSIONS)) {
      await save(path.join(folder, ...segments), content)
    } else if (isShown)
      continue // saved below, as a figure
    else if (output === null) (segments === null ? nameless : left).push(name)
    else {
      hasFailed = true
      lines.push(`not saved: ${showOnOneLine(name, 200)}: ${segments === null ? NO_NAME : (why ?? 'it was not read')}`)
    }
  }
  let figures = 0
  for (const { extension, bytes } of images) {
    if (files.some(file => file.content?.equals(bytes) === true && safeSegments(file.path) !== null)) continue
    figures += 1
    await save(path.join(folder, `figure-${figures}.${extension}`), bytes)
  }
  if (left.length > 0) lines.push(`not saved: ${named(left)}; --output DIR saves files, up to 128 MiB`)
  if (nameless.length > 0) lines.push(`not saved: ${named(nameless)}: ${NO_NAME}`)
  if (output !== null && collected?.isAll === false) {
    hasFailed = true
    lines.push('not saved: files that are not listed')
  }
  return { lines, hasFailed }
}

function named(names: readonly string[]): string {
  const shown = names.slice(0, NAMES_SHOWN).map(name => showOnOneLine(name, 200))
  return `${shown.join(', ')}${names.length > shown.length ? ` and ${names.length - shown.length} more` : ''}`
}

function whyNot(error: NodeJS.ErrnoException): string {
  switch (error.code) {
    case 'EEXIST':
    case 'ENOTDIR':
      return 'there is a file where a folder must be'
    case 'EACCES':
    case 'EPERM':
      return 'permission denied'
    case 'EROFS':
      return 'the file system is read-only'
    case 'ENOSPC':
    case 'EDQUOT':
      return 'the disk is full'
    default:
      return error.message
  }
}

/**
 * The code chose the name: nothing in it may lead out of the folder, or hide in a terminal. Nor is a hidden file made, which some program
 * of the person's may obey: .envrc, .git/hooks.
 */
function safeSegments(name: string): string[] | null {
  const segments = name.split('/')
  const isSafe = segments.every(part => part !== '' && !part.startsWith('.') && showOnOneLine(part, 255) === part)
  return isSafe && !name.includes('\\') ? segments : null
}

async function write(wanted: string, bytes: Buffer): Promise<string> {
  await mkdir(path.dirname(wanted), { recursive: true })
  const { dir, name, ext } = path.parse(wanted)
  for (let n = 1; n <= NAMES_TRIED; n++) {
    const file = n === 1 ? wanted : path.join(dir, `${name}-${n}${ext}`)
    // wx: neither over a file that is there nor through a link.
    const handle = await open(file, 'wx').catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'EEXIST') return null
      throw error
    })
    if (handle === null) continue
    try {
      await handle.writeFile(bytes)
    } finally {
      await handle.close()
    }
    return `saved ${file} (${fileSize(bytes.length)})`
  }
  throw new Error(`there are ${NAMES_TRIED} of that name already`)
}
