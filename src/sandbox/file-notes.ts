import type { RunEnd } from './messages.js'

const MAX_DEPTH = 16 // of python/core/collect.py

/** What the listing of a workspace leaves out, as sentences for the model. */
export function fileNotes(end: Pick<RunEnd, 'files_more' | 'files_partial' | 'files_other'>): string[] {
  const { links, hard_links, special } = end.files_other
  const other = [
    ...(links > 0 ? [counted(links, 'symbolic link')] : []),
    ...(hard_links > 0
      ? [counted(hard_links, 'file with several names (hard links)', 'files with several names (hard links)')]
      : []),
    ...(special > 0 ? [counted(special, 'pipe, socket or device', 'pipes, sockets or devices')] : []),
  ]
  return [
    ...(end.files_more > 0 ? [`files: ${end.files_more} more not listed`] : []),
    ...(other.length > 0 ? [`files: ${other.join(', ')} not listed`] : []),
    ...(end.files_partial === null ? [] : [`files: ${partial(end.files_partial)}`]),
  ]
}

function partial(why: NonNullable<RunEnd['files_partial']>): string {
  switch (why) {
    case 'depth':
      return `folders more than ${MAX_DEPTH} deep were not looked into`
    case 'entries':
      return 'there are too many to list them all'
    case 'time':
      return 'there was no time to list them all'
    case 'unreadable':
      return 'a folder that can not be read was not looked into'
  }
}

function counted(count: number, one: string, many = `${one}s`): string {
  return `${count} ${count === 1 ? one : many}`
}
