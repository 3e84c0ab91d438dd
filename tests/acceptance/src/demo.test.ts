import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { makeTemporaryFolder } from '@licensing/test-support/temporary-folder'
import { expect, test } from 'vitest'

const demo = new URL('../../../deploy/local/src/demo.ts', import.meta.url).pathname

test('npm run demo tells the whole story on a stack of its own, and leaves nothing running', async () => {
  await using folder = await makeTemporaryFolder()
  const child = spawn(process.execPath, [demo], {
    env: {
      ...process.env,
      DATA_DIR: `${folder.path}/none`,
      DATABASE_URL: '',
      NATS_URL: '',
      STRIPE_SECRET_KEY: '',
    },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let output = ''
  child.stdout.on('data', (chunk: Buffer) => (output += chunk.toString()))
  child.stderr.on('data', (chunk: Buffer) => (output += chunk.toString()))
  const [code] = (await once(child, 'close')) as [number | null]
  expect(code, output.slice(-2000)).toBe(0)
  for (const seen of [
    'webhook 1 licence.suspended',
    'licence.created',
    'payment.succeeded',
    'refund.processed',
    'licence.revoked',
    '"reason":"revoked"',
    'migrateAsync(\'OLD-KEY-0001\') → {"status":"licensed"',
    'That was the whole demo.',
  ]) {
    expect(output).toContain(seen)
  }
}, 120_000)
