import { fullTest } from '@licensing/test-support/drawn'
import { randomUUID } from 'node:crypto'
import { freeAddress } from '@licensing/test-support/free-address'
import { expect, test } from 'vitest'
import { z } from 'zod'
import { commandLine, settingsOf } from './command-line.ts'
import type { Envelope } from './delivery.ts'
import { readDocument } from './document.ts'
import { givenStack, givenVendor } from './vendor.ts'

const stack = await givenStack()
const vendor = await givenVendor(stack)
const { id: planId } = await vendor.plan()
const environment = settingsOf(stack, vendor.appId)
const { json, text } = commandLine(environment)

test('a licence is found by the beginning of its customer’s reference, and shown', async () => {
  const reference = `find-${randomUUID()}`
  const { id, key } = await vendor.issue(planId, { external_ref: reference })
  const found = await json(`licences find ${reference.slice(0, 20)}`)
  expect(found).toMatchObject([{ matched: 'external_ref', licence: { id } }])
  expect((await text(`licences find ${key}`)).stdout).toContain(`${id}  active`)
  expect(await json(`licences show ${id}`)).toEqual(await vendor.detail(id))
  expect((await text(`licences show ${id}`)).stdout).toContain(`external_ref: ${reference}\n`)
})

test('if nothing is found, the list is empty and the exit code 0', async () => {
  expect(await json('licences find nobody')).toEqual([])
  const none = { code: 0, stdout: '', stderr: 'no licence found\n' }
  expect(await text('licences find nobody')).toEqual(none)
})

test('each verb changes the licence without a question, and a refusal prints the service’s problem', async () => {
  const { id } = await vendor.issue(planId)
  for (const [verb, status] of [
    ['suspend', 'suspended'],
    ['reactivate', 'active'],
    ['revoke', 'revoked'],
  ] as const) {
    expect(await text(`licences ${verb} ${id}`)).toEqual({ code: 0, stdout: `${id} ${status}\n`, stderr: '' })
  }
  const problem = { type: '/errors/conflict', status: 409, code: 'conflict', current: 'revoked' }
  expect(await json(`licences reactivate ${id}`, 1)).toMatchObject({ ...problem, allowed: ['retire'] })
  const refused = await text(`licences reactivate ${id}`)
  expect(refused).toMatchObject({ code: 1, stdout: '' })
  expect(refused.stderr).toMatch(/^error: .*409 conflict/)
  expect(refused.stderr).toContain('allowed now: retire')
  expect(refused.stderr).not.toMatch(/\n\s+at /)
  expect((await text(`licences retire ${id}`)).stdout).toBe(`${id} retired\n`)
  expect((await vendor.detail(id)).status).toBe('retired')
})

test('the application comes from the key, else it is the only one, else the error lists all', async () => {
  const find = `licences find ${(await vendor.issue(planId)).external_ref}`
  const withKey = (key: string) =>
    commandLine({ LICENSING_URL: stack.gatewayUrl, LICENSING_API_KEY: key, LICENSING_APP: '' })
  const bound = await vendor.keyWith({ scopes: ['read'], app_id: vendor.appId })
  expect((await withKey(bound.key).text(find)).stdout).toContain('lic_')
  const unbound = withKey(stack.apiKey)
  const refused = await unbound.text(find)
  expect(refused).toMatchObject({ code: 1, stdout: '' })
  expect(refused.stderr).toContain(`${vendor.appId}  Studio`)
  expect(refused.stderr).toContain(stack.appId)
  expect((await unbound.text(`${find} --app ${vendor.appId}`)).stdout).toContain('lic_')
  const { code, applications } = await unbound.json<{ code: string; applications: object[] }>(find, 1)
  expect(code).toBe('application_required')
  expect(applications).toContainEqual({ id: vendor.appId, name: 'Studio' })
})

test('a flag overrides its environment variable', async () => {
  const { id } = await vendor.issue(planId)
  const wrong = commandLine({ LICENSING_URL: 'http://127.0.0.1:9', LICENSING_API_KEY: 'lsk_wrong' })
  await wrong.json(`licences show ${id} --url ${stack.gatewayUrl} --key ${stack.apiKey}`)
})

test('an invalid key and a service that does not answer end it with exit code 1, and no key is printed', async () => {
  const key = `lsk_${'x'.repeat(43)}`
  const bad = await text(`licences show lic_1 --key ${key} --json`)
  expect(JSON.parse(bad.stdout)).toMatchObject({ status: 401, code: 'unauthenticated' })
  const address = `http://${await freeAddress()}`
  const gone = await text(`licences show lic_1 --url ${address} --json`)
  const detail = expect.stringContaining(address) as string
  expect(JSON.parse(gone.stdout)).toMatchObject({ code: 'unreachable', detail })
  expect(gone.stderr).toBe(
    `error: the licensing service at ${address} does not answer (ECONNREFUSED)\ncheck that it runs, and LICENSING_URL or --url\n`,
  )
  const slipped = await text(`licences show lic_1 ${key}`)
  const unknown = await text(key)
  const all = [bad, gone, slipped, unknown]
  expect(all.map(({ code }) => code)).toEqual([1, 1, 2, 2])
  for (const { stdout, stderr } of all) {
    expect(stdout + stderr).not.toContain(key)
    expect(stdout + stderr).not.toContain(stack.apiKey)
    expect(stderr).not.toMatch(/\n\s+at /)
  }
})

fullTest('trigger causes each possible event on a new licence, and prints the event’s id', async () => {
  const simulated = commandLine({ ...environment, LICENSING_SIMULATOR_URL: stack.simulator!.url })
  const customer = await vendor.issue(planId)
  await vendor.define('export_pdf', 'feature')
  const { webhooks } = await readDocument(stack.gatewayUrl)
  const triggered = async (type: string) => {
    const printed = await simulated.json<{ id: string; sequence: number; licence_id?: string }>(
      `trigger ${type}`,
    )
    const path = `/v1/events?after=${printed.sequence - 1}&limit=1`
    const [event] = (await stack.api.get<{ data: Envelope[] }>(path)).body.data
    expect(event).toMatchObject({ id: printed.id, type, application_id: vendor.appId })
    expect(printed.licence_id).not.toBe(customer.id)
    const { schema, example } = webhooks[type]!.post.requestBody.content['application/json']
    const documented = z.fromJSONSchema(schema as Parameters<typeof z.fromJSONSchema>[0])
    expect(documented.safeParse(event).error, type).toBeUndefined()
    expect(documented.safeParse(example).error, type).toBeUndefined()
    expect(documented.safeParse({ ...event, type: 'licence.other' }).success).toBe(false)
    return event!.data.object
  }
  const changes =
    'reactivated revoked retired expired trial_started entitlements_changed expiring created plan_changed'
  // Several at the same time, because some of them wait for a sweep.
  await Promise.all(changes.split(' ').map((name) => triggered(`licence.${name}`)))
  expect(await triggered('licence.suspended')).toMatchObject({ status: 'suspended' })
  expect(await triggered('payment.succeeded')).toMatchObject({ amount: 4900, currency: 'usd' })
  expect(await triggered('refund.processed')).toMatchObject({ lane: 'full_refund' })
  expect(await triggered('licence.downgraded')).toMatchObject({ status: 'downgraded' })
  for (const _ of ['first', 'again']) {
    expect(await triggered('payment.provision_failed')).toMatchObject({ reason: 'plan_archived' })
  }
  expect((await simulated.text('trigger licence.suspended')).stdout).toMatch(/^evt_\w{26}\n$/)
  expect((await vendor.detail(customer.id)).status).toBe('active')
})

test('an event that trigger cannot cause is refused, also a payment without the simulator; an unknown event exits with 2', async () => {
  for (const [type, code] of [
    ['payment.succeeded', 'simulator_required'],
    ['refund.processed', 'simulator_required'],
    ['spend_cap.reached', 'cannot_trigger'],
    ['webhook.test', 'cannot_trigger'],
  ] as const) {
    expect(await json(`trigger ${type}`, 1)).toMatchObject({ code })
  }
  const elsewhere = commandLine({ ...environment, LICENSING_SIMULATOR_URL: stack.gatewayUrl })
  expect((await elsewhere.text('trigger payment.succeeded')).stderr).toContain('not the simulator')
  expect(await text('trigger licence.gone')).toMatchObject({ code: 2, stdout: '' })
})
