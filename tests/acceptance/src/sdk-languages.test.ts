import { Driver, type ClientOptions } from '@licensing/sdk-suite/driver'
import { languages } from '@licensing/sdk-suite/languages'
import { drawn } from '@licensing/test-support/drawn'
import type { ReceivedRequest } from '@licensing/test-support/https-receiver'
import { eventually } from '@licensing/test-support/poll'
import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { givenEndpoint } from './delivery.ts'
import { rotateSigningKey } from './published.ts'
import {
  expectStatus,
  givenFolder,
  givenReceiver,
  givenStack,
  givenVendor,
  installed,
  untilEnd,
} from './vendor.ts'

const stack = await givenStack()
const folder = await givenFolder()
const receiver = await givenReceiver()

/** An application with two plans, an endpoint for its events, and products of a language. */
async function givenProducts(driver: Driver) {
  const vendor = await givenVendor(stack, driver.language.name)
  await vendor.define('export_pdf', 'feature')
  await vendor.define('max_projects', 'limit', '3')
  const plan = await vendor.plan({ trial_days: 14, entitlements: [{ key: 'export_pdf', value: 'true' }] })
  /** The options of a product on a machine. */
  const optionsFor = (fields: Partial<ClientOptions> = {}): ClientOptions => ({
    base_url: stack.gatewayUrl,
    app_id: vendor.appId,
    root_key: vendor.rootKey,
    fingerprint: randomUUID(),
    ...installed,
    timeout_ms: 20_000,
    background: false,
    ...fields,
  })
  const start = (options: ClientOptions) => driver.open(options)
  return { vendor, plan, optionsFor, start }
}

/** The languages that do every part of the story. The others do its first and its last. */
const inFull = drawn(languages, 1)

describe.each(languages)('a product with the SDK of $name', async (language) => {
  const driver = untilEnd(await Driver.start(language))
  const { vendor, optionsFor, start, plan } = await givenProducts(driver)
  const { issue, verb, api, app } = vendor

  test('activates, works without a network, and is revoked', async () => {
    const licence = await issue(plan.id, { restrictions: { max_seats: 5, max_activations: 1 } })
    const store_file = join(folder.path, language.name, 'licence.json')
    const options = optionsFor({ licence_key: licence.key.toLowerCase(), store_file })
    const product = await start(options)
    const licensed = { status: 'licensed', usable: true, reason: null, licence_id: licence.id, problem: null }
    expect(await product.call('activate')).toMatchObject({ ...licensed, plan_id: plan.id, seats: 5 })
    expect(await product.value('has_feature', 'export_pdf')).toBe(true)
    expect(await product.value('limit', 'max_projects')).toBe(3)
    expect(await product.value('covers', '2026-11-01T00:00:00Z')).toBe(true)
    expect(await product.call('check')).toMatchObject({ ...licensed, revocations: 'current' })

    const offline = await start({ ...options, base_url: 'http://127.0.0.1:9' })
    expect(await offline.call('activate')).toMatchObject({ ...licensed, revocations: 'current' })
    expect(await offline.call('refresh')).toMatchObject({ status: 'licensed', problem: 'unreachable' })

    const second = await start(optionsFor({ licence_key: licence.key }))
    expect(await second.call('activate')).toMatchObject({ status: 'refused', reason: 'limit_reached' })
    expect(await product.call('call_home')).toMatchObject({ problem: null })
    expectStatus(await verb('revoke', licence.id), 200)
    const revoked = { status: 'refused', reason: 'revoked', usable: false }
    await eventually(async () => expect(await product.call('check')).toMatchObject(revoked))
    expect(await offline.call('ready')).toMatchObject(revoked)
    expect(await offline.value('has_feature', 'export_pdf')).toBe(false)
  })

  test.runIf(inFull.includes(language))(
    'refreshes with another signing key, and while it is suspended goes on with its token',
    async () => {
      const licence = await issue(plan.id)
      const product = await start(optionsFor({ licence_key: licence.key }))
      const licensed = { status: 'licensed', reason: null, problem: null }
      expect(await product.call('activate')).toMatchObject(licensed)
      await rotateSigningKey(stack, vendor, '--lead-seconds', '0')
      await eventually(async () => expect(await product.call('refresh')).toMatchObject(licensed))
      expectStatus(await verb('suspend', licence.id), 200)
      const suspended = { status: 'grace', reason: 'suspended', usable: true }
      await eventually(async () => expect(await product.call('refresh')).toMatchObject(suspended))
      expectStatus(await verb('reactivate', licence.id), 200)
      await eventually(async () => expect(await product.call('refresh')).toMatchObject(licensed))
    },
  )

  test.runIf(inFull.includes(language))(
    'shares leases of a floating licence, frees its activation, and goes on with a new key',
    async () => {
      const licence = await issue(plan.id, { restrictions: { max_concurrent: 1, lease_minutes: 10 } })
      const [first, second] = [
        await start(optionsFor({ licence_key: licence.key })),
        await start(optionsFor({ licence_key: licence.key })),
      ]
      expect(await first.call('activate')).toMatchObject({ status: 'licensed' })
      expect(await second.call('activate')).toMatchObject({ status: 'refused', reason: 'no_place' })
      expect(await first.call('release')).toMatchObject({ status: 'unlicensed', reason: 'released' })
      expect(await second.call('activate')).toMatchObject({ status: 'licensed', problem: null })
      expect(await second.call('deactivate')).toMatchObject({ status: 'unlicensed', reason: 'deactivated' })
      expect(await first.call('activate')).toMatchObject({ status: 'licensed' })

      const rotated = await api.post<{ key: string }>(`/v1/licences/${licence.id}/rotate-key`)
      expectStatus(rotated, 200)
      expect(await first.call('refresh')).toMatchObject({ status: 'licensed' })
      await first.call('release')
      const unknown = { status: 'refused', reason: 'unknown_licence_key' }
      await eventually(async () => {
        const stale = await start(optionsFor({ licence_key: licence.key }))
        expect(await stale.call('activate')).toMatchObject(unknown)
      })
      const renewed = await start(optionsFor({ licence_key: rotated.body.key }))
      expect(await renewed.call('activate')).toMatchObject({ status: 'licensed', licence_id: licence.id })
    },
  )

  test.runIf(inFull.includes(language))(
    'starts a trial, migrates a legacy key, and reads an offline file',
    async () => {
      const machine = optionsFor({ store_file: join(folder.path, language.name, 'trial.json') })
      const trial = await start(machine)
      await eventually(async () => {
        expect(await trial.call('start_trial', plan.code)).toMatchObject({
          status: 'licensed',
          plan_id: plan.id,
        })
      })
      const { licence_id } = await trial.call('state')
      expect(await (await start(machine)).call('start_trial', plan.code)).toMatchObject({ licence_id })
      expect(await trial.call('start_trial', 'there-is-none')).toMatchObject({ status: 'licensed' })

      const legacy_key = `OLD-${randomUUID()}`
      const items = [{ legacy_key, external_ref: 'customer', plan_id: plan.id }]
      expectStatus(await api.post(`${app}/licences/import`, { body: { items } }), 200)
      const migrated = await start(optionsFor())
      const unknown = { status: 'refused', reason: 'unknown_legacy_key' }
      expect(await migrated.call('migrate', 'OLD-none')).toMatchObject(unknown)
      expect(await migrated.call('migrate', ` ${legacy_key}\n`)).toMatchObject({ status: 'licensed' })

      const licence = await issue(plan.id)
      const offline = { base_url: 'http://127.0.0.1:9', licence_key: licence.key }
      const product = await start(optionsFor(offline))
      const request = await product.createOfflineRequest()
      const made = await api.post<{ file: string }>(`${app}/offline-activations`, {
        body: { ...request, days: 30 },
      })
      expectStatus(made, 201)
      const read = { status: 'licensed', offline: true, licence_id: licence.id, problem: null }
      expect(await product.call('activate_offline', `> ${made.body.file}`)).toMatchObject(read)
      expect(await product.value('has_feature', 'export_pdf')).toBe(true)
      const other = await start(optionsFor(offline))
      expect(await other.call('activate_offline', made.body.file)).toMatchObject({
        status: 'unlicensed',
        reason: 'file_of_another_machine',
      })
    },
  )

  test('verifies the webhooks of the service, and refuses them if they were changed', async () => {
    const endpoint = await givenEndpoint(vendor, receiver)
    const { id } = await issue(plan.id)
    expectStatus(await verb('revoke', id), 200)
    const [delivery] = (await endpoint.next(1)) as [ReceivedRequest]
    const { secret } = endpoint
    const body_base64 = delivery.body.toString('base64')
    const argument = { body_base64, headers: delivery.headers, secrets: ['whsec_other', secret] }
    expect(await driver.ask('verify_webhook', { argument })).toMatchObject({
      event: { type: 'licence.revoked', data: { object: { licence_id: id } } },
    })
    const signature = delivery.headers['webhook-signature']
    const changed = {
      body_base64: Buffer.from(`${delivery.body.toString()} `).toString('base64'),
      signature,
      secrets: secret,
    }
    expect(await driver.ask('verify_webhook', { argument: changed })).toMatchObject({
      reason: 'signature_mismatch',
    })
  })
})
