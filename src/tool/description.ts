import type { Config } from '../config.js'
import type { SandboxFacts } from '../outcome.js'
import { mebibytes, seconds } from '../quantities.js'
import { IMAGES_MOST } from '../shown-parts.js'

/**
 * What the model is told of the tool: the limits in force, what is there, how results look. Short, as each call pays for it.
 * `tools`: what it is told of the tools that code can call, null where there are none.
 */
export function describePython(config: Config, facts: SandboxFacts, tools: string | null): string {
  const { sandbox } = config
  const installed = Object.entries(facts.installed).map(([name, version]) => `${name} ${version}`)
  const libraries = installed.length === 0 ? 'the standard library' : `the standard library, ${installed.join(', ')}`
  const processes = facts.subprocesses
    ? `${sandbox.processes} processes and threads`
    : `${sandbox.processes} threads (processes can't be started: no subprocess, multiprocessing or os.fork)`
  const cpu = sandbox.cpuMs === null ? '' : `, ${seconds(sandbox.cpuMs)} of CPU time`
  const language =
    sandbox.policy === 'restricted'
      ? [
          `Python ${facts.interpreter.version} under a restricted policy: NO imports at all (not even json, re or math), no open, eval, exec, ` +
            'async, match or metaclasses, no names or attributes that begin with "_" (methods such as __init__ may be defined). ' +
            'Built-in functions and types, functions, classes, generators, f-strings, try and with work as usual.',
        ]
      : [`Python ${facts.interpreter.version} with ${libraries}. No network, nothing can be installed, no input().`]
  return [
    'Runs a Python script in a fresh, isolated sandbox and returns what it printed.',
    ...language,
    config.files.store === 'off'
      ? 'Nothing persists: every call starts with an empty working directory and no variables, so send complete scripts.'
      : 'No variables persist, so send complete scripts. Files that a call leaves in its working directory are there again, under the same ' +
        `names, in later calls of the same chat (${mebibytes(config.files.threadBytes)} in all, the oldest go first).`,
    `Limits: ${seconds(sandbox.wallMs)} of wall time (timeout_seconds may ask for up to ${seconds(sandbox.wallMaxMs)})${cpu}, ` +
      `${mebibytes(sandbox.memoryBytes)} of memory with files included, ${processes}, ` +
      `${mebibytes(sandbox.workspaceBytes)} in ${sandbox.workspaceFiles} files of up to ${mebibytes(sandbox.fileBytes)} each.`,
    'The result is stdout, then the value of the last expression as in a notebook, then stderr, then facts in [brackets]: ' +
      'exit code, limits met, files made.',
    ...(sandbox.policy === 'restricted'
      ? []
      : [
          `Open matplotlib figures, PIL images as last value and what is given to display() are shown to you (${IMAGES_MOST} images at most); ` +
            'a DataFrame as last value is a compact table.',
        ]),
    `At most ${sandbox.stdoutKeptBytes} bytes of stdout and ${sandbox.stderrKeptBytes} of stderr are shown, head and tail: print what matters, not raw data.`,
    ...(tools === null ? [] : [tools]),
    ...(config.confirmBefore === 'always' ? ['A person is asked before each run.'] : []),
  ].join('\n')
}
