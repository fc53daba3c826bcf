import { constants } from 'node:fs'
import { access, mkdir, open } from 'node:fs/promises'
import path from 'node:path'
import type { CollectedFile, Part } from '../outcome.js'
import { fileSize } from '../tool/quantities.js'
import { showOnOneLine } from '../tool/readable-text.js'

export interface FilesToSave {
  /** Of the outcome: its images are saved. */
  readonly parts: readonly Part[]
  /** What the code made: all of it is saved to `output`; without one they only give images of the same bytes their name. */
  readonly collected: readonly CollectedFile[]
  /** A folder, made where it is missing; null: the current one, and images alone. */
  readonly output: string | null
}

const EXTENSIONS: Readonly<Record<string, string>> = { 'image/png': 'png', 'image/jpeg': 'jpg' }
const NAMES_TRIED = 1_000
const NAMES_SHOWN = 5

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
  /** For each file a line for a person; then one that says what was not saved. */
  readonly lines: readonly string[]
  /** Whether the file system refused any. */
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
  const files = collected.filter(file => output !== null || file.mime.startsWith('image/'))
  const images = parts.flatMap(part => {
    const extension = EXTENSIONS[part.m_type]
    return extension === undefined ? [] : [{ extension, bytes: Buffer.from(part.m_content, 'base64') }]
  })
  for (const { path: name, content, why } of files) {
    const shown = showOnOneLine(name, 200)
    const segments = safeSegments(name)
    if (segments === null)
      lines.push(`not saved: ${shown}: no name for a file outside of the sandbox, as it is hidden or leads elsewhere`)
    else if (content === null) lines.push(`not saved: ${shown}${why === null ? '' : `: ${why}`}`)
    else if (output !== null || images.some(image => image.bytes.equals(content))) {
      await save(path.join(folder, ...segments), content)
    }
  }
  let figures = 0
  for (const { extension, bytes } of images) {
    if (files.some(file => file.content?.equals(bytes) === true && safeSegments(file.path) !== null)) continue
    figures += 1
    await save(path.join(folder, `figure-${figures}.${extension}`), bytes)
  }
  if (output === null) {
    const isSaved = ({ mime, content }: CollectedFile) =>
      mime.startsWith('image/') && content !== null && images.some(image => image.bytes.equals(content))
    lines.push(...leftLine(collected.filter(file => !isSaved(file)).map(file => file.path)))
  }
  return { lines, hasFailed }
}

/** What is gone with the sandbox, and how to get it. */
function leftLine(names: readonly string[]): string[] {
  if (names.length === 0) return []
  const shown = names.slice(0, NAMES_SHOWN).map(name => showOnOneLine(name, 200))
  const more = names.length > shown.length ? ` and ${names.length - shown.length} more` : ''
  return [`not saved: ${shown.join(', ')}${more}; --output DIR saves all files`]
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
  return `not saved: ${wanted}: there are ${NAMES_TRIED} of that name already`
}
