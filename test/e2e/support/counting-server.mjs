// An MCP server over stdio whose tools leave a trace: each call is a line in the file that its argument names.
import { appendFileSync } from 'node:fs'
import { McpServer } from '@modelcontextprotocol/sdk/server/mcp.js'
import { StdioServerTransport } from '@modelcontextprotocol/sdk/server/stdio.js'
import { z } from 'zod'

const [file] = process.argv.slice(2)
let calls = 0
const server = new McpServer({ name: 'counting', version: '1.0.0' })
const answer = (what, args) => {
  appendFileSync(file, `${what} ${JSON.stringify(args)}\n`)
  return { content: [{ type: 'text', text: `${what} ${++calls}` }] }
}
server.registerTool(
  'look',
  { description: 'Looks something up.', inputSchema: { what: z.string() }, annotations: { readOnlyHint: true } },
  args => answer('look', args),
)
server.registerTool(
  'send',
  { description: 'Sends a message.', inputSchema: { text: z.string() }, annotations: { destructiveHint: true } },
  args => answer('send', args),
)
server.registerTool('hang', { description: 'Does not answer.', annotations: { readOnlyHint: true } }, async () => {
  answer('hang', {})
  await new Promise(resolve => setTimeout(resolve, 60_000))
  return answer('hung', {})
})
server.registerTool('key', { description: 'Shows its key.', annotations: { readOnlyHint: true } }, () => ({
  content: [{ type: 'text', text: `the key is ${process.env.SERVER_KEY}` }],
}))
await server.connect(new StdioServerTransport())
