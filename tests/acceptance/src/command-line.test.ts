import { randomUUID } from 'node:crypto'
import { freeAddress } from '@licensing/test-support/free-address'
import { sharedStack } from '@licensing/test-support/shared-stack'
import type { Stack } from '@licensing/test-support/stack-shape'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { z } from 'zod'
import { runCommand, settingsOf } from './command-line.ts'
import { readDocument } from './document.ts'
import { givenVendor } from './vendor.ts'
import type { Licence, Vendor } from './vendor.ts'

let stack: Stack
let vendor: Vendor
let planId: string
let environment: Record<string, string>

beforeAll(async () => {
  stack = await sharedStack()
  vendor = await givenVendor(stack)
  planId = (await vendor.plan()).id
  environment = settingsOf(stack, vendor.appId)
})
afterAll(() => stack[Symbol.asyncDispose]())

const cli = (...args: string[]) => runCommand(environment, ...args)
const keyWith = async (fields: object) =>
  (await stack.api.post<{ key: string }>('/v1/api-keys', { body: { name: 'cli', ...fields } })).body.key

test('a licence is found by the beginning of its customer’s reference, and shown', async () => {
  const reference = `find-${randomUUID()}`
  const { id, key } = await vendor.issue(planId, { external_ref: reference })
  const found = await cli('licences', 'find', reference.slice(0, 20), '--json')
  expect(found).toMatchObject({ code: 0, stderr: '' })
  expect(JSON.parse(found.stdout)).toMatchObject([{ matched: 'external_ref', licence: { id } }])
  expect((await cli('licences', 'find', key)).stdout).toContain(`${id}  active`)
  const shown = await cli('licences', 'show', id, '--json')
  expect(JSON.parse(shown.stdout)).toEqual((await stack.api.get(`/v1/licences/${id}`)).body)
  expect((await cli('licences', 'show', id)).stdout).toContain(`external_ref: ${reference}\n`)
})

test('if nothing is found, the list is empty and the exit code 0', async () => {
  const found = await cli('licences', 'find', randomUUID(), '--json')
  expect(found).toMatchObject({ code: 0, stderr: '' })
  expect(JSON.parse(found.stdout)).toEqual([])
  expect(await cli('licences', 'find', randomUUID())).toEqual({
    code: 0,
    stdout: '',
    stderr: 'no licence found\n',
  })
})

test('each verb changes the licence without a question, and a refusal prints the service’s problem', async () => {
  const { id } = await vendor.issue(planId)
  for (const [verb, status] of [
    ['suspend', 'suspended'],
    ['reactivate', 'active'],
    ['revoke', 'revoked'],
  ] as const) {
    expect(await cli('licences', verb, id)).toEqual({ code: 0, stdout: `${id} ${status}\n`, stderr: '' })
  }
  const refused = await cli('licences', 'reactivate', id, '--json')
  expect(refused.code).toBe(1)
  expect(JSON.parse(refused.stdout)).toMatchObject({
    type: '/errors/conflict',
    status: 409,
    code: 'conflict',
    current: 'revoked',
    allowed: ['retire'],
  })
  const text = await cli('licences', 'reactivate', id)
  expect(text).toMatchObject({ code: 1, stdout: '' })
  expect(text.stderr).toMatch(/^error: .*409 conflict/)
  expect(text.stderr).toContain('allowed now: retire')
  expect(text.stderr).not.toMatch(/\n\s+at /)
  expect((await cli('licences', 'retire', id)).stdout).toBe(`${id} retired\n`)
  expect((await stack.api.get<Licence>(`/v1/licences/${id}`)).body.status).toBe('retired')
})

test('the application comes from the key, else it is the only one, else the error lists all', async () => {
  const { external_ref: reference } = await vendor.issue(planId)
  const find = async (settings: Record<string, string>, ...more: string[]) =>
    runCommand({ LICENSING_URL: stack.gatewayUrl, ...settings }, 'licences', 'find', reference, ...more)
  const bound = await keyWith({ scopes: ['read'], app_id: vendor.appId })
  expect((await find({ LICENSING_API_KEY: bound })).stdout).toContain('lic_')
  const refused = await find({ LICENSING_API_KEY: stack.apiKey })
  expect(refused).toMatchObject({ code: 1, stdout: '' })
  expect(refused.stderr).toContain(`${vendor.appId}  Studio`)
  expect(refused.stderr).toContain(stack.appId)
  const named = await find({ LICENSING_API_KEY: stack.apiKey, LICENSING_APP: '' }, '--app', vendor.appId)
  expect(named.stdout).toContain('lic_')
  const asJson = await find({ LICENSING_API_KEY: stack.apiKey }, '--json')
  expect(JSON.parse(asJson.stdout)).toMatchObject({
    code: 'application_required',
    applications: expect.arrayContaining([{ id: vendor.appId, name: 'Studio' }]),
  })
})

test('a flag overrides its environment variable', async () => {
  const { id } = await vendor.issue(planId)
  const wrong = { LICENSING_URL: 'http://127.0.0.1:9', LICENSING_API_KEY: 'lsk_wrong' }
  const shown = await runCommand(
    wrong,
    'licences',
    'show',
    id,
    '--url',
    stack.gatewayUrl,
    '--key',
    stack.apiKey,
  )
  expect(shown).toMatchObject({ code: 0, stderr: '' })
})

test('an invalid key and a service that does not answer end it with exit code 1, and no key is printed', async () => {
  const key = `lsk_${'x'.repeat(43)}`
  const bad = await cli('licences', 'show', 'lic_1', '--key', key, '--json')
  expect(bad.code).toBe(1)
  expect(JSON.parse(bad.stdout)).toMatchObject({ status: 401, code: 'unauthenticated' })
  const address = `http://${await freeAddress()}`
  const gone = await cli('licences', 'show', 'lic_1', '--url', address, '--json')
  expect(gone.code).toBe(1)
  expect(JSON.parse(gone.stdout)).toMatchObject({
    code: 'unreachable',
    detail: expect.stringContaining(address),
  })
  expect(gone.stderr).toBe(
    `error: the licensing service at ${address} does not answer (ECONNREFUSED)\ncheck that it runs, and LICENSING_URL or --url\n`,
  )
  const slipped = await cli('licences', 'show', 'lic_1', key)
  const unknown = await cli(key)
  expect([slipped.code, unknown.code]).toEqual([2, 2])
  for (const { stdout, stderr } of [bad, gone, slipped, unknown]) {
    expect(stdout + stderr).not.toContain(key)
    expect(stdout + stderr).not.toContain(stack.apiKey)
    expect(stderr).not.toMatch(/\n\s+at /)
  }
})

test('trigger causes each possible event on a new licence, and prints the event’s id', async () => {
  const simulated = { ...environment, LICENSING_SIMULATOR_URL: stack.simulator!.url }
  const customer = await vendor.issue(planId)
  const { webhooks } = await readDocument(stack.gatewayUrl)
  const triggered = async (type: string) => {
    const finished = await runCommand(simulated, 'trigger', type, '--json')
    expect(finished.code, `${type}: ${finished.stderr}`).toBe(0)
    const printed = JSON.parse(finished.stdout) as { id: string; sequence: number; licence_id?: string }
    const page = await stack.api.get<{ data: { data: { object: object } }[] }>(
      `/v1/events?after=${printed.sequence - 1}&limit=1`,
    )
    const [event] = page.body.data
    expect(event).toMatchObject({ id: printed.id, type, application_id: vendor.appId })
    expect(printed.licence_id).not.toBe(customer.id)
    const { schema, example } = webhooks[type]!.post.requestBody.content['application/json']
    const documented = z.fromJSONSchema(schema as Parameters<typeof z.fromJSONSchema>[0])
    expect(documented.safeParse(event).error, type).toBeUndefined()
    expect(documented.safeParse(example).error, type).toBeUndefined()
    expect(documented.safeParse({ ...event, type: 'licence.other' }).success).toBe(false)
    return event!.data.object
  }
  expect(await triggered('licence.suspended')).toMatchObject({ status: 'suspended' })
  for (const type of ['licence.reactivated', 'licence.revoked', 'licence.retired', 'licence.expired']) {
    await triggered(type)
  }
  await triggered('licence.trial_started')
  await vendor.define('export_pdf', 'feature')
  await triggered('licence.entitlements_changed')
  await triggered('licence.expiring')
  await triggered('licence.created')
  await triggered('licence.plan_changed')
  expect(await triggered('payment.succeeded')).toMatchObject({ amount: 4900, currency: 'usd' })
  expect(await triggered('refund.processed')).toMatchObject({ lane: 'full_refund' })
  expect(await triggered('licence.downgraded')).toMatchObject({ status: 'downgraded' })
  for (const _ of ['first', 'again']) {
    expect(await triggered('payment.provision_failed')).toMatchObject({ reason: 'plan_archived' })
  }
  const text = await runCommand(simulated, 'trigger', 'licence.suspended')
  expect(text.stdout).toMatch(/^evt_\w{26}\n$/)
  expect((await stack.api.get<Licence>(`/v1/licences/${customer.id}`)).body.status).toBe('active')
})

test('an event that trigger cannot cause is refused, also a payment without the simulator; an unknown event exits with 2', async () => {
  for (const [type, code] of [
    ['payment.succeeded', 'simulator_required'],
    ['refund.processed', 'simulator_required'],
    ['spend_cap.reached', 'cannot_trigger'],
    ['webhook.test', 'cannot_trigger'],
  ] as const) {
    const refused = await cli('trigger', type, '--json')
    expect(refused.code).toBe(1)
    expect(JSON.parse(refused.stdout)).toMatchObject({ code })
  }
  const elsewhere = { ...environment, LICENSING_SIMULATOR_URL: stack.gatewayUrl }
  expect((await runCommand(elsewhere, 'trigger', 'payment.succeeded')).stderr).toContain('not the simulator')
  expect(await cli('trigger', 'licence.gone')).toMatchObject({ code: 2, stdout: '' })
})
