import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { fileURLToPath } from 'node:url'
import { createFront } from './front.ts'

// The program of the development image: runs npm start behind one port. PUBLIC_URL is the address of this port for users.
const port = 8080
const start = fileURLToPath(new URL('../../local/src/start.ts', import.meta.url))
// STOP_WITH_PARENT is not passed on to child processes, because their standard input is not the pipe of the parent.
const { STOP_WITH_PARENT: stopWithParent, ...environment } = process.env
const { DATA_DIR: dataDir = '/data', PUBLIC_URL: publicUrl = `http://127.0.0.1:${port}` } = environment

const stack = spawn(process.execPath, [start], {
  env: {
    WEBHOOK_ALLOWED_CIDRS: '127.0.0.0/8,::1/128,10.0.0.0/8,172.16.0.0/12,192.168.0.0/16',
    SIMULATOR_PUBLIC_URL: publicUrl,
    ...environment,
    PUBLIC_URL: publicUrl,
    DATA_DIR: dataDir,
    GATEWAY_PORT: '0',
  },
  stdio: ['ignore', 'pipe', 'inherit'],
})
const ended = once(stack, 'exit')
for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => stack.kill('SIGTERM'))
// If the process of a test is killed, its end of the pipe closes, and the stack stops.
if (stopWithParent === '1') {
  process.stdin.on('end', () => stack.kill('SIGTERM')).resume()
}

for await (const line of createInterface(stack.stdout)) {
  if (!line.startsWith('ready ')) continue
  const ready = JSON.parse(line.slice(6)) as { gateway: string; app_id: string; account_id: string }
  const { apiKey, simulatorUrl } = JSON.parse(await readFile(join(dataDir, 'stack.json'), 'utf8')) as {
    apiKey: string
    simulatorUrl?: string
  }
  const front = createFront(ready.gateway, simulatorUrl)
  await once(front.listen(port), 'listening')
  front.unref()
  const variables = {
    LICENSING_URL: publicUrl,
    LICENSING_API_KEY: apiKey,
    LICENSING_APP: ready.app_id,
    ...(simulatorUrl !== undefined && { LICENSING_SIMULATOR_URL: publicUrl }),
  }
  for (const [name, value] of Object.entries(variables)) process.stdout.write(`export ${name}=${value}\n`)
  process.stdout.write(`ready ${JSON.stringify({ ...ready, gateway: publicUrl })}\n`)
  break
}
stack.stdout.resume()
const [code] = (await ended) as [number | null]
process.exit(code ?? 1)
