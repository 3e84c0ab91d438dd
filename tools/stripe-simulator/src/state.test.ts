import { mkdtemp, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { startSimulator } from './simulator.ts'
import { asVendor, clientOf, givenPrice, givenSession, saleEvents, startReceiver } from './test-support.ts'

type Folder = AsyncDisposable & { path: string }

async function givenFolder(): Promise<Folder> {
  const path = await mkdtemp(join(tmpdir(), 'stripe-simulator-'))
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true }) }
}

test('a restart keeps objects, keys and the clock, and continues deliveries', async () => {
  await using folder = await givenFolder()
  const stateFile = join(folder.path, 'stripe.json')
  const options = { ...asVendor, idempotencyKey: 'chk_1' }
  const params = { success_url: 'http://127.0.0.1/', mode: 'payment' as const }

  const first = await startSimulator({
    stateFile,
    webhookUrl: 'http://127.0.0.1:9/',
    retryDelaysMs: [60_000],
    enabledEvents: saleEvents,
  })
  await first.control('clock', { now: 1_793_700_000 })
  const stripe = clientOf(first)
  const line_items = [{ price: await givenPrice(first), quantity: 1 }]
  const session = await stripe.checkout.sessions.create({ ...params, line_items }, options)
  const open = await givenSession({ simulator: first, stripe })
  await first.control('pay', { session: session.id })
  await first.stop()
  expect(await readdir(folder.path)).toEqual(['stripe.json'])

  await using receiver = await startReceiver()
  await using second = await startSimulator({
    stateFile,
    webhookUrl: receiver.url,
    retryDelaysMs: [10],
    enabledEvents: saleEvents,
  })
  const again = clientOf(second)
  const replayed = await again.checkout.sessions.create({ ...params, line_items }, options)
  expect(replayed.id).toBe(session.id)
  const now = await again.checkout.sessions.retrieve(session.id, {}, asVendor)
  expect(now).toMatchObject({ status: 'complete', created: 1_793_700_000 })
  const stillOpen = await again.checkout.sessions.retrieve(open.id, {}, asVendor)
  expect(stillOpen.url).toBe(`${second.url}/pay/${open.id}`)
  await second.settled()
  expect(receiver.types()).toEqual(['checkout.session.completed'])
  expect((await givenSession({ simulator: second, stripe: again })).created).toBe(1_793_700_000)
})

test('an invalid state file is refused, with advice', async () => {
  await using folder = await givenFolder()
  const stateFile = join(folder.path, 'stripe.json')
  await writeFile(stateFile, '{')
  await expect(startSimulator({ stateFile })).rejects.toThrow('delete it to start with an empty state')
})
