import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { startLocalStack } from '@licensing/test-support/local-stack'
import { makeTemporaryFolder } from '@licensing/test-support/temporary-folder'
import { expect, test } from 'vitest'

const demo = new URL('../../../deploy/local/src/demo.ts', import.meta.url).pathname

test('npm run demo tells the whole story on a stack of its own, and leaves nothing running', async () => {
  await using folder = await makeTemporaryFolder()
  const output = await runDemo(`${folder.path}/none`)
  for (const seen of [
    'webhook 1 licence.suspended',
    'licence.created',
    'payment.succeeded',
    'refund.processed',
    'licence.revoked',
    '"reason":"revoked"',
    'migrateAsync(\'OLD-KEY-0001\') → {"status":"licensed"',
    'The demo is complete.',
  ]) {
    expect(output).toContain(seen)
  }
})

test('npm run demo works against what npm start runs, and again', async () => {
  await using folder = await makeTemporaryFolder()
  await using stack = startLocalStack({ dataDir: folder.path })
  await stack.ready()
  for (const _ of ['first', 'again']) {
    const output = await runDemo(folder.path)
    expect(output).toContain(`using the service that runs in ${folder.path}`)
    expect(output.match(/⇒ webhook/g)).toHaveLength(7)
    expect(output).not.toContain('signature INVALID')
  }
})

/** What it printed, once it has ended well. */
async function runDemo(dataDir: string): Promise<string> {
  const child = spawn(process.execPath, [demo], {
    env: { ...process.env, DATA_DIR: dataDir, DATABASE_URL: '', NATS_URL: '', STRIPE_SECRET_KEY: '' },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let output = ''
  child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()))
  child.stderr.on('data', (chunk: Buffer) => (output += chunk.toString()))
  const [code] = (await once(child, 'close')) as [number | null]
  expect(code, output.slice(-2000)).toBe(0)
  return output
}
