import {
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  realpathSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import ts from 'typescript'

const root = fileURLToPath(new URL('../../../../', import.meta.url))

export interface BuiltReader {
  /** The entry of the process that reads pages. */
  readonly entry: string
  /** A file beside the code, that the process may run as an entry. */
  write(name: string, code: string): string
  remove(): void
}

/** src/toolbox/web as the build makes it, in a folder of its own: tests of src need no build, but a process needs JavaScript. */
export function buildReader(): BuiltReader {
  const folder = mkdtempSync(join(realpathSync(tmpdir()), 'page-reader-'))
  const code = join(folder, 'dist', 'toolbox', 'web')
  mkdirSync(code, { recursive: true })
  writeFileSync(join(folder, 'package.json'), '{"type":"module"}')
  // It may be a link itself; the process may follow one.
  symlinkSync(realpathSync(join(root, 'node_modules')), join(folder, 'node_modules'))
  const source = join(root, 'src/toolbox/web')
  // What starts the process may use what others use; the process itself can read nothing but its own folder.
  for (const name of [...readdirSync(source), '../pieces.ts']) {
    const { outputText } = ts.transpileModule(readFileSync(join(source, name), 'utf8'), {
      compilerOptions: { target: ts.ScriptTarget.ES2023, module: ts.ModuleKind.ESNext, verbatimModuleSyntax: true },
    })
    writeFileSync(join(code, name.replace(/\.ts$/, '.js')), outputText)
  }
  return {
    entry: join(code, 'page-child.js'),
    write(name, text) {
      const path = join(code, name)
      writeFileSync(path, text)
      return path
    },
    remove: () => rmSync(folder, { recursive: true, force: true }),
  }
}
