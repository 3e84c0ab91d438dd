import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { findRunningStack } from './data-folder.ts'
import type { StackFile } from './data-folder.ts'
import { payAndRefund } from './demo/paid-story.ts'
import { runProduct } from './demo/product-story.ts'
import { startReceiver } from './demo/receiver.ts'
import { chapter, DemoFailure, tell } from './demo/show.ts'
import { sellByHand, setUpShop } from './demo/vendor-story.ts'
import { makeAccessibleFolder } from '@licensing/local-servers/folders'
import { YOUNG_GENERATION } from '@licensing/local-servers/node-process'
import { printableLines } from '@licensing/terminal/printable'
import { dataDirOf } from './start-settings.ts'

// `npm run demo`: shows the whole lifecycle, with each request and answer. Uses the stack that runs in DATA_DIR, or starts a
// temporary one.
try {
  await using stack = await useStack()
  const { gateway, apiKey, simulatorUrl } = stack.file
  const shop = await setUpShop(gateway, apiKey)
  await using receiver = await startReceiver(gateway, apiKey)
  const licenceKey = await sellByHand(shop, receiver)
  if (simulatorUrl === undefined) tell('the service uses a real Stripe: the payment chapters are skipped')
  else await payAndRefund(shop, receiver, simulatorUrl)
  await runProduct(shop, gateway, licenceKey, receiver)
  chapter('The demo is complete.')
} catch (error) {
  process.stderr.write(
    `\nnpm run demo: ${printableLines(error instanceof DemoFailure ? error.message : String(error))}\n`,
  )
  process.exitCode = 1
}

interface UsedStack extends AsyncDisposable {
  file: StackFile
}

async function useStack(): Promise<UsedStack> {
  const dataDir = dataDirOf(process.env)
  const running = await findRunningStack(dataDir)
  if (running) {
    tell(`using the service that runs in ${dataDir}`)
    return { file: running, [Symbol.asyncDispose]: () => Promise.resolve() }
  }
  tell(`no service runs in ${dataDir}: starting a temporary one`)
  return startStack()
}

async function startStack(): Promise<UsedStack> {
  const folder = await mkdtemp(join(tmpdir(), 'licensing-demo-'))
  await makeAccessibleFolder(folder)
  const main = fileURLToPath(new URL('npm-start.mjs', import.meta.url))
  const start = spawn(process.execPath, [YOUNG_GENERATION, main], {
    env: {
      ...process.env,
      DATA_DIR: folder,
      GATEWAY_PORT: '0',
    },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  const ended = once(start, 'exit')
  const stop = async () => {
    start.kill('SIGTERM')
    await ended
    await rm(folder, { recursive: true, force: true })
  }
  await new Promise<void>((resolve) => {
    let output = ''
    start.stdout.on('data', (chunk: Buffer) => {
      output += chunk.toString()
      if (output.includes('\nready ')) resolve()
    })
    void ended.then(() => resolve())
  })
  const file = await findRunningStack(folder)
  if (!file) {
    await stop()
    throw new DemoFailure('the service did not start; its output is above')
  }
  return { file, [Symbol.asyncDispose]: stop }
}
