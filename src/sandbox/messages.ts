import { z } from 'zod'

/** What template, zygote and warden say. The Python side is in python/core; unknown fields are ignored. */

export const TemplateEvent = z.discriminatedUnion('event', [
  z.object({
    event: z.literal('up'),
    landlock_abi: z.number(),
    /** Of the call that asks for it; 0 where the kernel answered. */
    landlock_errno: z.number(),
    landlock_missing: z.array(z.string()),
    /** Whether sandboxes have a /proc of their own; else the errno of the refusal. */
    proc: z.boolean(),
    proc_errno: z.number(),
    /** The first host uid of the sandboxes; null where they have the worker's, and the errno that says why. */
    uid_base: z.number().nullable(),
    uid_errno: z.number(),
    /** 0 where guests have a cgroup namespace. */
    cgroup_errno: z.number(),
    /** 0 where a sandbox can be made the first to go when memory is short. */
    oom_errno: z.number(),
    /** What the kernel refused of a cgroup that was tried out, and with which errno; null where all went well, or none was. */
    cgroup_refused: z.tuple([z.string(), z.number()]).nullable(),
  }),
  z.object({ event: z.literal('failed'), step: z.string(), errno: z.number(), message: z.string() }),
  z.object({ event: z.literal('zygote_exit'), zygote: z.number(), code: z.number() }),
  z.object({ event: z.literal('no_zygote'), sandbox: z.number() }),
  z.object({ event: z.literal('no_warden'), sandbox: z.number(), message: z.string() }),
])
export type TemplateEvent = z.infer<typeof TemplateEvent>

/** How a guest ended, as only its parent can know. */
export const GuestExit = z.object({
  event: z.literal('exit'),
  sandbox: z.number(),
  code: z.number().nullable(),
  signal: z.number().nullable(),
  cpu_ms: z.number(),
  max_rss_bytes: z.number(),
})
export type GuestExit = z.infer<typeof GuestExit>

export const ZygoteEvent = z.discriminatedUnion('event', [
  z.object({
    event: z.literal('ready'),
    installed: z.record(z.string(), z.string()),
    missing: z.record(z.string(), z.string()),
    import_ms: z.number(),
    /** Why it is a fork of the template and not, as was asked for, a program of its own. */
    not_renewed: z.string().nullish(),
  }),
  /** Before each preload, and null after the last: whatever happens next is that module's doing. */
  z.object({ event: z.literal('importing'), module: z.string().nullable() }),
  /** The module has left something in the process that no fork may have, such as a thread. */
  z.object({ event: z.literal('unfit'), module: z.string(), why: z.string() }),
  z.object({ event: z.literal('not_forked'), sandbox: z.number(), message: z.string() }),
  GuestExit,
  z.object({ event: z.literal('pong'), rss_bytes: z.number() }),
])
export type ZygoteEvent = z.infer<typeof ZygoteEvent>

export const RunEnd = z.object({
  event: z.literal('end'),
  cause: z.enum(['wall', 'cpu', 'memory', 'processes', 'workspace_bytes', 'workspace_files', 'cancelled']).nullable(),
  figure: z.number().nullable(),
  /** The most memory in use, where the kernel has ended all in the sandbox's cgroup for reaching its limit. */
  oom_bytes: z.number().nullish(),
  /** A limit whose error the code met and did not end by. */
  hint: z.enum(['file_size', 'open_files', 'processes', 'workspace_bytes', 'workspace_files']).nullable(),
  run_ms: z.number(),
  /** What the watch saw of the whole tree; what it could miss is in the other counts. */
  cpu_seen_ms: z.number(),
  /** Orphans and what was killed, as the warden waited for them. */
  cpu_ms: z.number(),
  peak_bytes: z.number(),
  baseline_bytes: z.number(),
  peak_processes: z.number(),
  workspace_bytes: z.number(),
  workspace_files: z.number(),
  workspace_full: z.boolean(),
  workspace_files_full: z.boolean(),
  stdout_total: z.number(),
  stderr_total: z.number(),
  /** `index`: its bytes have all come before, in frames with this number. `why`: they should have, and have not. */
  files: z.array(
    z.object({
      path: z.string(),
      bytes: z.number(),
      index: z.number().optional(),
      why: z.enum(['name', 'too_large', 'too_many', 'no_room', 'late', 'unreadable', 'changed']).optional(),
    }),
  ),
  files_more: z.number(),
  /** Why not all of the workspace was looked into. */
  files_partial: z.enum(['depth', 'entries', 'time', 'unreadable']).nullable(),
  files_other: z.object({
    links: z.number().default(0),
    hard_links: z.number().default(0),
    special: z.number().default(0),
  }),
  /** Paths of the files of earlier calls that the code has removed. */
  files_gone: z.array(z.string()),
  /** Paths of those that are neither as they were nor listed. */
  files_unlisted: z.array(z.string()),
})
export type RunEnd = z.infer<typeof RunEnd>

export const WardenEvent = z.discriminatedUnion('event', [
  z.object({ event: z.literal('parked') }),
  z.object({ event: z.literal('started') }),
  z.object({ event: z.literal('failed'), message: z.string() }),
  /** The guest has read so many bytes of answers. */
  z.object({ event: z.literal('took'), bytes: z.number() }),
  /** Files of earlier calls are in place, but those that could not be written, each with the reason. */
  z.object({ event: z.literal('placed'), problems: z.array(z.tuple([z.string(), z.string()])) }),
  RunEnd,
])
