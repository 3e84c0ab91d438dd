import { startPostgres } from '@licensing/local-servers/postgres'
import { startHttpsReceiver } from '@licensing/test-support/https-receiver'
import { expectNothingLost, startLoad } from '@licensing/test-support/load'
import { eventually } from '@licensing/test-support/poll'
import { mountSmallDisk } from '@licensing/test-support/small-disk'
import { startStack } from '@licensing/test-support/stack'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'

const environment = {
  WEBHOOK_BACKOFF_SECONDS: '1',
  RATE_LIMIT_PER_MINUTE: '10000000',
  // JetStream reserves this much on its disk for each stream.
  STREAM_MAX_BYTES: String(4 * 1024 * 1024),
}
const onlyRoot = 'a file system can be mounted only by root'

test('PostgreSQL’s disk full under load: requests get 503, all works again when there is space, and nothing is lost', async ({
  skip,
}) => {
  using disk = mountSmallDisk(400)
  if (!disk) return skip(onlyRoot)
  await using postgres = await startPostgres({ dataDir: disk.folder, durable: false })
  await using receiver = await startHttpsReceiver()
  await using stack = await startStack({ receiver, environment, postgresUrl: postgres.url() })
  await using load = await startLoad(stack, receiver)
  await load.more(200)
  const free = await disk.fill()
  await eventually(() => load.failures.length > 50)
  const licensing = stack.processes.licensing[0]!
  expect(await licensing.log()).toMatch(/No space left on device|the database system is/)
  await free()
  // PostgreSQL ends itself if it cannot write its log. Whatever supervises it starts it again.
  const hasEnded = (await readFile(join(disk.folder, 'postgres.log'), 'utf8')).includes('shut down')
  if (hasEnded) await postgres.start()
  const failed = load.failures.length
  await load.more(200)
  await load.stop()
  expect(load.failures.filter(({ status }) => status !== 503)).toEqual([])
  expect(load.failures.length).toBeLessThan(failed + 100)
  await expectNothingLost(stack, receiver, load)
  for (const process of Object.values(stack.processes).flat()) await process.untilReady()
})

test('JetStream’s disk full under load: no request fails, events arrive, and nothing is lost', async ({
  skip,
}) => {
  await using receiver = await startHttpsReceiver()
  await using stack = await startStack({ receiver, environment })
  await stack.nats.kill()
  using disk = mountSmallDisk(40, stack.nats.storeDir)
  if (!disk) return skip(onlyRoot)
  await stack.nats.start()
  await using load = await startLoad(stack, receiver)
  await load.more(200)
  const free = await disk.fill()
  await load.more(600)
  expect(load.failures).toEqual([])
  // Consumers read the log in PostgreSQL while JetStream stores nothing.
  const arrived = receiver.requests.length
  await eventually(() => receiver.requests.length > arrived + 100)
  await free()
  await stack.nats.kill()
  await stack.nats.start()
  await load.more(200)
  await load.stop()
  expect(load.failures).toEqual([])
  await expectNothingLost(stack, receiver, load)
  await stack.nats.kill()
})
