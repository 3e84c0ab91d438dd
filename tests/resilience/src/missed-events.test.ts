import { CHECKOUT } from '@licensing/local-servers/services'
import { connect } from '@licensing/database/connect'
import { commandEnvironment } from '@licensing/test-support/command-environment'
import { startHttpsReceiver } from '@licensing/test-support/https-receiver'
import { eventually } from '@licensing/test-support/poll'
import { startStack } from '@licensing/test-support/stack'
import type { Stack } from '@licensing/test-support/stack-shape'
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { givenShop } from './given.ts'

const environment = { WEBHOOK_BACKOFF_SECONDS: '1', LOG_LEVEL: 'warn' }

/** `licensing-admin` as an operator runs it. @returns the lines that it prints */
async function admin(stack: Stack, ...args: string[]): Promise<Record<string, unknown>[]> {
  const [catalog] = stack.processes.catalog
  const { stdout } = await promisify(execFile)(
    process.execPath,
    [`${CHECKOUT}/services/catalog/src/admin/licensing-admin.ts`, ...args],
    { env: { ...commandEnvironment(), ...catalog!.environment } },
  )
  return stdout
    .split('\n')
    .filter((line) => line !== '')
    .map((line) => JSON.parse(line) as Record<string, unknown>)
}

test('events that an installation lost are found after its upgrade, and reach feed and receiver by one command', async () => {
  await using receiver = await startHttpsReceiver()
  await using stack = await startStack({ receiver, environment })
  const { planId } = await givenShop(stack, receiver)
  const issued = await Promise.all(
    Array.from({ length: 6 }, (_, number) =>
      stack.api.post<{ id: string }>(`/v1/apps/${stack.appId}/licences`, {
        headers: { 'idempotency-key': String(number) },
        body: { external_ref: 'customer', plan_id: planId },
      }),
    ),
  )
  const [first, ...others] = issued.map(({ body }) => body.id)
  await stack.api.post(`/v1/licences/${first!}/suspend`)
  await receiver.received(1)

  // What an earlier release did after a stall: the position passes events that had no effect.
  const [notifier] = stack.processes.notifier
  await notifier!.stop()
  for (const id of others) expect((await stack.api.post(`/v1/licences/${id}/suspend`)).status).toBe(200)
  await using licensing = database(stack.databaseUrls.licensing)
  await eventually(async () => expect(await licensing.sql`select from outbox`).toHaveLength(0))
  await using notified = database(stack.databaseUrls.notifier)
  const { sql } = notified
  await sql`update consumer_positions set position = 6 where stream = 'LICENSING_EVENTS' and position = 1`
  await notifier!.start()

  const missed = await eventually(
    async () => {
      const lines = await admin(stack, 'missed-events', 'list', '--service', 'notifier')
      expect(lines).toHaveLength(5)
      return lines
    },
    { intervalMs: 500 },
  )
  expect(missed[0]).toMatchObject({ service: 'notifier', stream: 'LICENSING_EVENTS', sequence: 2 })
  expect(receiver.requests).toHaveLength(1)

  const consumed = await admin(stack, 'missed-events', 'consume')
  expect(consumed.map(({ failure }) => failure)).toEqual(Array(5).fill(null))
  await receiver.received(6)
  const feed = await stack.api.get<{
    data: { sequence: number; data: { object: { licence_id: string } } }[]
  }>('/v1/events?after=0')
  expect(feed.body.data.map(({ sequence }) => sequence)).toEqual([1, 2, 3, 4, 5, 6])
  expect(feed.body.data.map(({ data }) => data.object.licence_id).slice(1)).toEqual(others)
  expect(await admin(stack, 'missed-events', 'list')).toEqual([])
})

function database(url: string) {
  const sql = connect(url, { name: 'test', max: 1 })
  return { sql, [Symbol.asyncDispose]: () => sql.end() }
}
