// An MCP server over stdio that does what its first argument says; written without the SDK, so that it can break the protocol.
import { spawn } from 'node:child_process'
import { createInterface } from 'node:readline'

const [mode = 'good', argument = ''] = process.argv.slice(2)
const send = message => process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...message })}\n`)
const text = words => ({ content: [{ type: 'text', text: words }] })
const sleep = ms => new Promise(resolve => setTimeout(resolve, ms))
let names = [
  'echo',
  'hang',
  'die',
  'large',
  'many',
  'flood',
  'block',
  'cancelled',
  'image',
  'refuse',
  'strange',
  'odd',
  'env',
  'change',
  'raw',
]
const cancelled = []

if (mode === 'exits') {
  process.stderr.write(`no licence for ${process.env.API_KEY ?? 'nobody'}\n`)
  process.exit(3)
}
if (mode === 'stubborn') {
  process.on('SIGTERM', () => {})
  // A grandchild in the same group, which holds the pipes.
  spawn(
    process.execPath,
    ['-e', 'process.on("SIGTERM", () => {}); setInterval(() => {}, 1000)', 'stubborn-grandchild', argument],
    {
      stdio: 'inherit',
    },
  )
  setInterval(() => {}, 1_000)
}
if (mode === 'garbage')
  process.stdout.write(
    `Server is running!\n{"half": \n42\n[]\n${'['.repeat(300_000)}${']'.repeat(300_000)}\n\u0000\u0001\n`,
  )
if (mode === 'chatty') for (let i = 0; i < 500; i++) process.stderr.write(`line ${i} with ${process.env.API_KEY}\n`)

const tool = name => ({ name, description: `Does ${name}.`, inputSchema: { type: 'object', properties: {} } })

const deep = levels => (levels === 0 ? {} : { a: deep(levels - 1) })

async function page(cursor) {
  if (mode === 'pages') {
    const from = Number(cursor ?? 0)
    return { tools: Array.from({ length: 400 }, (_, i) => tool(`tool_${from + i}`)), nextCursor: String(from + 400) }
  }
  if (mode === 'circle') return { tools: [tool(`t_${cursor}`)], nextCursor: 'same' }
  if (mode === 'malformed')
    return {
      tools: [
        tool('fine'),
        { name: 'no-schema' },
        7,
        { ...tool('deep'), inputSchema: deep(300) },
        tool('fine'),
        { ...tool('t'), execution: { taskSupport: 'required' } },
      ],
    }
  if (mode === 'unlisted') await sleep(60_000)
  return { tools: names.map(tool) }
}

async function call(id, name, args) {
  switch (name) {
    case 'echo':
      return { result: text(String(args.message)) }
    case 'hang':
      return sleep(60_000)
    case 'block':
      while (true);
    case 'die':
      process.exit(args.code ?? 1)
      break
    case 'large': {
      // With the id last or first, as servers of different languages write it, without holding it all.
      const head = args.idFirst ? `{"jsonrpc":"2.0","id":${id},"result":{"content":[` : '{"result":{"content":['
      process.stdout.write(`${head}{"type":"text","text":"`)
      const part = 'x'.repeat(1024 * 1024)
      for (let i = 0; i < args.mebibytes; i++) {
        if (!process.stdout.write(part)) await new Promise(resolve => process.stdout.once('drain', resolve))
      }
      process.stdout.write(args.idFirst ? '"}]}}\n' : `"}]},"jsonrpc":"2.0","id":${id}}\n`)
      return null
    }
    case 'many': {
      const list = `[${'[],'.repeat(args.values)}0]`
      process.stdout.write(
        `{"jsonrpc":"2.0","id":${id},"result":{"content":[],"structuredContent":{"list":${list}}}}\n`,
      )
      return null
    }
    case 'flood': {
      const to = args.stderr ? process.stderr : process.stdout
      const line =
        args.method === ''
          ? '\n'
          : `${JSON.stringify({ jsonrpc: '2.0', method: args.method ?? 'notifications/message', params: { level: 'info', data: 'x' } })}\n`
      const many = line.repeat(1_000)
      let lines = 0
      const end = Date.now() + args.ms
      while (Date.now() < end) {
        lines += 1_000
        if (!to.write(many)) await new Promise(resolve => to.once('drain', resolve))
      }
      return { result: text(args.stderr ? String(lines) : 'flooded') }
    }
    case 'cancelled':
      return { result: { content: [], structuredContent: { cancelled } } }
    case 'image':
      return { result: { content: [{ type: 'image', mimeType: 'image/png', data: 'A'.repeat(args.characters) }] } }
    case 'refuse':
      return { error: { code: -32602, message: 'the month has no 31st day' } }
    case 'strange':
      return args.error ? { error: 'no' } : { result: 'just a string' }
    case 'odd':
      // Values that JavaScript makes no number or text of, where both are expected.
      for (const odd of [
        { toString: 0 },
        { valueOf: 0, toString: 0 },
        [[{ toString: 0 }]],
        null,
        true,
        1.5,
        '',
        '1e3',
      ]) {
        send({ id: odd, result: {} })
        send({ id: odd, error: { code: 1, message: 'x' } })
        send({ method: odd, id: odd, params: odd })
        send({ method: 'notifications/message', params: odd })
        process.stdout.write(`${JSON.stringify([odd, { jsonrpc: odd, id: odd, error: odd }])}\n`)
      }
      return { error: { code: { toString: 0 }, message: { toString: 0 } } }
    case 'raw':
      process.stdout.write(`{"jsonrpc":"2.0","id":${id},"result":${args.result}}\n`)
      return null
    case 'env':
      return {
        result: {
          content: [],
          structuredContent: { env: process.env, cwd: process.cwd(), argv: process.argv.slice(2) },
        },
      }
    case 'change':
      names = [...names.filter(one => one !== 'die'), 'fresh']
      for (let i = 0; i < 50; i++) send({ method: 'notifications/tools/list_changed' })
      return { result: text('changed') }
    default:
      return { error: { code: -32602, message: `unknown tool ${name}` } }
  }
}

createInterface({ input: process.stdin }).on('line', async line => {
  const { id, method, params } = JSON.parse(line)
  if (method === 'notifications/cancelled') cancelled.push(params.requestId)
  if (id === undefined) return
  if (method === 'initialize') {
    if (mode === 'mute') return
    if (mode === 'slow') await sleep(Number(argument))
    if (mode === 'unversed') return send({ id, result: {} })
    const { protocolVersion } = params
    const capabilities = { tools: { listChanged: true } }
    return send({ id, result: { protocolVersion, capabilities, serverInfo: { name: 'misbehaving', version: '1' } } })
  }
  if (method === 'ping') return send({ id, result: {} })
  if (method === 'tools/list') return send({ id, result: await page(params?.cursor) })
  const answer = await call(id, params.name, params.arguments ?? {})
  if (answer) send({ id, ...answer })
})
