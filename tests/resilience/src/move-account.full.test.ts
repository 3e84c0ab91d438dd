import { connect } from '@licensing/database/connect'
import { CHECKOUT } from '@licensing/local-servers/services'
import { apiClient } from '@licensing/test-support/api-client'
import type { ApiClient } from '@licensing/test-support/api-client'
import { startHttpsReceiver } from '@licensing/test-support/https-receiver'
import { eventually } from '@licensing/test-support/poll'
import { runAdmin } from '@licensing/test-support/run-admin'
import { startStack } from '@licensing/test-support/stack'
import type { Stack } from '@licensing/test-support/stack-shape'
import { spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { setTimeout as pause } from 'node:timers/promises'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { expectMovedWhole, givenMovingVendor } from './moving-vendor.ts'

const receiver = await startHttpsReceiver()
const environment = {
  SWEEP_INTERVAL_SECONDS: '1',
  RATE_LIMIT_PER_MINUTE: '1000000',
  PRODUCT_RATE_PER_MINUTE: '1000000',
}
let cells: [Stack, Stack]
beforeAll(async () => {
  const options = { receiver, replicas: { gateway: 2, licensing: 2 } }
  const first = await startStack({ ...options, environment, simulator: true })
  // Both cells use the same platform account of the processor. It sends its events only to the first.
  const processor = { ...first.simulator!.environment, RECONCILE_INTERVAL_SECONDS: '1' }
  cells = [first, await startStack({ ...options, environment: { ...environment, ...processor } })]
})
afterAll(async () => {
  for (const cell of cells ?? []) await cell[Symbol.asyncDispose]()
  await receiver[Symbol.asyncDispose]()
})

/** The environment of `licensing-admin` in a cell from which accounts move to another. */
function environmentOf(from: Stack, to: Stack): Record<string, string> {
  const of = (name: keyof Stack['processes']) => to.processes[name][0]!.environment['GRPC_ADDRESS']!
  return {
    ...from.processes.catalog[0]!.environment,
    TO_CATALOG_ADDRESS: of('catalog'),
    TO_LICENSING_ADDRESS: of('licensing'),
    TO_BILLING_ADDRESS: of('billing'),
    TO_NOTIFIER_ADDRESS: of('notifier'),
    TO_CALL_KEYS: to.processes.catalog[0]!.environment['CALL_KEYS']!,
  }
}

const program = join(CHECKOUT, 'deploy/admin/src/licensing-admin.ts')

function startCommand(from: Stack, to: Stack, accountId: string, ...options: string[]) {
  const args = [program, 'move-account', '--account', accountId, ...options]
  const child = spawn(process.execPath, args, { env: { ...process.env, ...environmentOf(from, to) } })
  const outputs = Promise.all([text(child.stdout), text(child.stderr)])
  const ended = once(child, 'exit').then(async () => {
    const [stdout, stderr] = await outputs
    return { code: child.exitCode, stdout, stderr }
  })
  return { child, ended }
}

const move = (from: Stack, to: Stack, accountId: string, ...options: string[]) =>
  startCommand(from, to, accountId, ...options).ended

test('an account moves under load: each change counts once, each event arrives, and the former cell says where it is', async () => {
  const [from, to] = cells
  const vendor = await givenMovingVendor(from, receiver)
  await vendor.more(60)
  const moved = await move(from, to, vendor.accountId, '--address', to.gatewayUrl)
  expect([moved.code, moved.stderr]).toEqual([0, ''])
  process.stdout.write(moved.stdout)
  await vendor.more(60)
  await vendor.stop()
  await expectMovedWhole(vendor, receiver, to.gatewayUrl)
  process.stdout.write(`longest pause of the vendor: ${Math.round(vendor.longestMs)} ms\n`)
  expect([...vendor.statuses].toSorted((a, b) => a - b)).toEqual([200, 201, 421, 503])
  const former = apiClient(from.gatewayUrl, vendor.key)
  const refused = {
    type: '/errors/account_moved',
    title: 'Account moved',
    status: 421,
    code: 'account_moved',
    detail: `this account is served at ${to.gatewayUrl}`,
    request_id: expect.any(String) as string,
    address: to.gatewayUrl,
  }
  for (const path of [
    '/v1/account',
    `/v1/apps/${vendor.appId}/plans`,
    `/v1/apps/${vendor.appId}/jwks.json`,
  ]) {
    const answer = await former.get(path)
    expect([path, answer.status, answer.body]).toEqual([path, 421, refused])
  }
  // The order of refusals: who calls is known before the body is read.
  expect((await former.post(`/v1/apps/${vendor.appId}/plans`, { body: '{' })).status).toBe(421)
  expect((await move(from, to, vendor.accountId, '--abort')).code).toBe(1)
  expect((await move(from, to, vendor.accountId, '--address', to.gatewayUrl)).code).toBe(0)
  // Its rows can be deleted, and the account can come back.
  const forgotten = await move(from, to, vendor.accountId, '--forget')
  expect([forgotten.code, forgotten.stderr]).toEqual([0, ''])
  const back = await move(to, from, vendor.accountId, '--address', from.gatewayUrl)
  expect([back.code, back.stderr]).toEqual([0, ''])
  // Replicas know it after 2.5 seconds.
  await eventually(async () => expect((await former.get('/v1/account')).status).toBe(200))
  await expectMovedWhole(vendor, receiver, from.gatewayUrl)
})

test('the command may be killed at any time: run again, it completes the move; with --abort the account returns', async () => {
  const [from, to] = cells
  const vendor = await givenMovingVendor(from, receiver)
  await vendor.more(40)
  for (const afterMs of [400, 3_100, 3_600]) {
    const { child, ended } = startCommand(from, to, vendor.accountId, '--address', to.gatewayUrl)
    await pause(afterMs)
    child.kill('SIGKILL')
    await ended
  }
  const { stdout } = await runAdmin(from, 'list')
  expect(stdout).toContain(vendor.accountId)
  if (vendor.base === from.gatewayUrl && !vendor.statuses.has(421)) {
    const aborted = await move(from, to, vendor.accountId, '--abort')
    expect([aborted.code, aborted.stderr]).toEqual([0, ''])
    await vendor.more(40)
    expect(vendor.base).toBe(from.gatewayUrl)
  }
  for (const afterMs of [3_300, 4_000, 4_500, 5_000]) {
    const { child, ended } = startCommand(from, to, vendor.accountId, '--address', to.gatewayUrl)
    await pause(afterMs)
    child.kill('SIGKILL')
    await ended
  }
  const moved = await move(from, to, vendor.accountId, '--address', to.gatewayUrl)
  expect([moved.code, moved.stderr]).toEqual([0, ''])
  await vendor.more(40)
  await vendor.stop()
  await expectMovedWhole(vendor, receiver, to.gatewayUrl)
})

test('of two commands that run at once for an account, one completes the move, and nothing is lost', async () => {
  let [from, to] = cells
  const vendor = await givenMovingVendor(from, receiver)
  for (const laterMs of [0, 500, 4_000]) {
    await vendor.more(40)
    const runs = await Promise.all(
      [0, laterMs].map(async (afterMs) => {
        await pause(afterMs)
        return move(from, to, vendor.accountId, '--address', to.gatewayUrl)
      }),
    )
    // Each may have replaced the other's copy of another service.
    if (runs.every(({ code }) => code !== 0)) {
      const again = await move(from, to, vendor.accountId, '--address', to.gatewayUrl)
      expect([again.code, again.stderr]).toEqual([0, ''])
    }
    await vendor.more(40)
    expect(vendor.base).toBe(to.gatewayUrl)
    ;[from, to] = [to, from]
  }
  await vendor.stop()
  await expectMovedWhole(vendor, receiver, from.gatewayUrl)
})

test('an account with a connected processor moves: what is paid and refunded afterwards has its effect in the new cell, once', async () => {
  const [from, to] = cells
  const { stdout } = await runAdmin(from, 'create-account', '--name', 'Shop')
  const { account_id: accountId, app_id: appId, key } = JSON.parse(stdout) as Record<string, string>
  const [former, there] = [from, to].map((cell) => apiClient(cell.gatewayUrl, key!)) as [ApiClient, ApiClient]
  const app = `/v1/apps/${appId}`
  const connected_account = `acct_1${randomUUID().replaceAll('-', '')}`
  expect(
    (await former.put('/v1/processor', { body: { processor: 'stripe', connected_account } })).status,
  ).toBe(200)
  const plan = await former.post<{ id: string }>(`${app}/plans`, { body: { name: 'Sold', code: 'sold' } })
  const price = { price_id: `price_${randomUUID()}`, amount: 4_900, currency: 'eur', mode: 'payment' }
  expect((await former.put(`${app}/plans/${plan.body.id}/price`, { body: price })).status).toBe(200)
  const checkout = async (api: ApiClient, externalRef: string) => {
    const urls = { success_url: 'https://shop.example/thanks', cancel_url: 'https://shop.example/' }
    const body = { plan_id: plan.body.id, external_ref: externalRef, ...urls }
    const opened = await api.post<{ id: string; url: string }>(`${app}/checkout-sessions`, { body })
    expect([opened.status, opened.body]).toEqual([201, opened.body])
    return new URL(opened.body.url).pathname.split('/').at(-1)!
  }
  const atProcessor = async (action: string, body: object) => {
    const headers = { 'content-type': 'application/json' }
    const answer = await fetch(`${from.simulator!.url}/_sim/${action}`, {
      method: 'POST',
      headers,
      body: JSON.stringify(body),
    })
    expect([answer.status, await answer.text()]).toEqual([200, expect.any(String)])
  }
  const reaches = (api: ApiClient, externalRef: string, status: string) =>
    eventually(async () => {
      const found = await api.get<{ data: { status: string }[] }>(
        `${app}/licences?external_ref=${externalRef}`,
      )
      expect(found.body.data.map((licence) => licence.status)).toEqual([status])
    })
  const events = async () => {
    const answer = await fetch(`${from.simulator!.url}/_sim/events`)
    const { data } = (await answer.json()) as { data: ProcessorEvent[] }
    return data.filter(({ event }) => event.account === connected_account)
  }
  const [before, open] = [await checkout(former, 'before'), await checkout(former, 'open')]
  await atProcessor('pay', { session: before })
  await reaches(former, 'before', 'active')
  const moved = await move(from, to, accountId!, '--address', to.gatewayUrl)
  expect([moved.code, moved.stderr]).toEqual([0, ''])
  await eventually(async () => expect((await there.get('/v1/account')).status).toBe(200))
  const earlier = (await events()).length
  await atProcessor('pay', { session: open })
  await reaches(there, 'open', 'active')
  await atProcessor('refund', { charge: before })
  await reaches(there, 'before', 'revoked')
  const later = await checkout(there, 'later')
  await atProcessor('pay', { session: later })
  await reaches(there, 'later', 'active')
  const payments = await there.get<{ data: { external_ref: string }[] }>(`${app}/payments`)
  expect(payments.body.data.map((payment) => payment.external_ref).toSorted()).toEqual([
    'before',
    'later',
    'open',
  ])
  // The processor has sent its events to the former cell, which accepts and ignores them.
  const ignored = await eventually(async () => {
    const sent = (await events()).slice(earlier)
    expect(sent.map(({ delivery }) => delivery)).toEqual(
      sent.map(() => ({ state: 'delivered', attempts: [expect.objectContaining({ status: 200 })] })),
    )
    return sent.map(({ event }) => event.id)
  })
  expect(ignored.length).toBeGreaterThan(3)
  await using closing = new AsyncDisposableStack()
  const sql = connect(from.databaseUrls.billing, { name: 'test', max: 1 })
  closing.defer(() => sql.end())
  expect(await sql`select event_id from processor_events where event_id = any(${ignored})`).toEqual([])
})

interface ProcessorEvent {
  event: { id: string; account?: string }
  delivery: { state: string; attempts: { status?: number }[] }
}
