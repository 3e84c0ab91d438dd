import { randomUUID } from 'node:crypto'
import type { HttpsReceiver } from '@licensing/test-support/https-receiver'
import type { Stack } from '@licensing/test-support/stack-shape'
import { expect } from 'vitest'
import { givenVendor } from '../vendor.ts'
import type { Dice } from './dice.ts'

const idPattern = /\b([a-z]{2,5})_[0-7][0-9a-hjkmnp-tv-z]{25}\b/g
const licenceKeyPattern = /\b[0-9A-HJKMNP-TV-Z]{5}(?:-[0-9A-HJKMNP-TV-Z]{5}){4}\b/g
const maxKept = 200

const trialCode = 'fuzz-trial'

/** Known ids, keys, tokens and cursors, from the setup and from responses. */
export class World {
  readonly #pools = new Map<string, string[]>()
  /** The application of each known id, and the token of each activation. */
  readonly #applications = new Map<string, string>()
  readonly #tokens = new Map<string, string>()
  /** The application of the request that is being built. */
  application: string | undefined
  /** Keys that must not be revoked, because the test itself uses them. */
  readonly #spared: ReadonlySet<string>
  readonly apiKeys: { all: string; others: string[] }
  readonly #receiverUrl: string

  private constructor(apiKeys: World['apiKeys'], spared: string[], receiverUrl: string) {
    this.apiKeys = apiKeys
    this.#spared = new Set(spared)
    this.#receiverUrl = receiverUrl
  }

  static async make(stack: Stack, receiver: HttpsReceiver): Promise<World> {
    const { api } = stack
    const vendor = await givenVendor(stack)
    const { body: listed } = await api.get<{ data: { id: string }[] }>('/v1/api-keys')
    const made: { id: string; key: string }[] = []
    for (const scopes of [['admin'], ['read'], ['issue'], ['revoke'], ['admin', 'read', 'issue', 'revoke']]) {
      const bound = scopes.length > 1 && { app_id: vendor.appId }
      const { body } = await api.post<{ id: string; key: string }>('/v1/api-keys', {
        body: { name: scopes.join(' '), scopes, ...bound },
      })
      made.push(body)
    }
    const world = new World(
      { all: stack.apiKey, others: made.map(({ key }) => key) },
      [...listed.data, ...made].map(({ id }) => id),
      receiver.url('/fuzz'),
    )
    await world.#furnish(vendor)
    return world
  }

  async #furnish(vendor: Awaited<ReturnType<typeof givenVendor>>): Promise<void> {
    const { api, app } = vendor
    const keep = ({ status, body }: { status: number; body: unknown }) => {
      expect(status, JSON.stringify(body)).toBeLessThan(300)
      this.learn(JSON.stringify(body ?? null), app)
    }
    const connected = { processor: 'stripe', connected_account: 'acct_1Fuzz' }
    expect((await api.put('/v1/processor', { body: connected })).status).toBe(200)
    for (const key of ['feature_one', 'limit_one']) {
      keep({ status: 201, body: await vendor.define(key, key === 'limit_one' ? 'limit' : 'feature') })
    }
    const values = { entitlements: [{ key: 'limit_one', value: '5' }], trial_days: 14 }
    const plan = await vendor.plan({ ...values, code: trialCode })
    keep({ status: 201, body: plan })
    const price = { price_id: 'price_fuzz', amount: 100, currency: 'eur', mode: 'payment', period_months: 12 }
    keep(await api.put(`${app}/plans/${plan.id}/price`, { body: price }))
    const endpoint = { url: this.#receiverUrl, subscribed_events: '*' }
    const hook = await api.post<{ id: string }>(`${app}/webhook-endpoints`, { body: endpoint })
    keep(hook)
    keep(await api.post(`${app}/webhook-endpoints/${hook.body.id}/test`))
    const licence = await vendor.issue(plan.id)
    keep({ status: 201, body: licence })
    keep(await vendor.activate(licence))
    const shop = 'https://shop.example.com/'
    const order = { plan_id: plan.id, external_ref: 'c', success_url: shop, cancel_url: shop }
    keep(await api.post(`${app}/checkout-sessions`, { body: order }))
    const item = { legacy_key: 'legacy-1', external_ref: 'c', plan_id: plan.id }
    keep(await api.post(`${app}/licences/import`, { body: { items: [item] } }))
    keep(await api.get(`${app}/licences?limit=1`))
    keep(await api.get(`${app}/webhook-deliveries`))
  }

  /**
   * Remembers the ids, keys, tokens and cursors in an answer.
   *
   * @param path the path of the request, which names the application
   */
  learn(text: string, path: string): void {
    const application = /app_[0-9a-z]{26}/.exec(path)?.[0] ?? this.#applicationIn(text)
    for (const [id, prefix] of text.matchAll(idPattern)) {
      if (this.#spared.has(id)) continue
      this.#add(prefix!, id)
      if (application !== undefined) this.#applications.set(id, application)
    }
    const granted = /"activation_id":"([^"]+)".*"token":"([^"]+)"/.exec(text)
    if (granted) this.#tokens.set(granted[1]!, granted[2]!)
    for (const [key] of text.matchAll(licenceKeyPattern)) this.#add('licence_key', key)
    for (const name of ['next_cursor', 'legacy_key']) {
      for (const [, value] of text.matchAll(new RegExp(`"${name}":("[^"\\\\]{1,600}")`, 'g'))) {
        this.#add(name, JSON.parse(value!) as string)
      }
    }
  }

  #add(pool: string, value: string): void {
    const values = this.#pools.get(pool) ?? []
    this.#pools.set(pool, values)
    if (!values.includes(value)) values.push(value)
    // The oldest values stay, because most operations need them.
    if (values.length > maxKept) values.splice(maxKept / 4, 1)
  }

  /** A known value of this kind, mostly of the request's application. */
  any(dice: Dice, pool: string): string | undefined {
    const all = this.#pools.get(pool) ?? []
    const own = all.filter((id) => this.#applications.get(id) === this.application)
    return dice.recent(own.length > 0 && dice.chance(92) ? own : all)
  }

  /** Selects the application of a known object of this kind, so that the path names an existing object. */
  turnTo(dice: Dice, kind: string): void {
    const met = dice.recent(this.#pools.get(kind) ?? [])
    this.application = (met && this.#applications.get(met)) ?? dice.one(this.#pools.get('app')!)
  }

  tokenOf(activationId: string): string | undefined {
    return this.#tokens.get(activationId)
  }

  #applicationIn(text: string): string | undefined {
    return /"application_id":"([^"]+)"/.exec(text)?.[1]
  }

  /** An id of any kind. */
  anyId(dice: Dice): string {
    return (
      this.any(dice, dice.one(['app', 'pln', 'lic', 'act', 'whe', 'dlv', 'cs', 'ent', 'key', 'evt'])) ?? ''
    )
  }

  /** A value for a field or parameter of this name, if its type does not determine one. */
  valueFor(dice: Dice, name: string): unknown {
    switch (name) {
      case 'plan_id':
      case 'plan':
        return this.any(dice, 'pln')
      case 'app_id':
        return this.application
      case 'endpoint_id':
      case 'endpoint':
        return this.any(dice, 'whe')
      case 'licence_key':
      case 'legacy_key':
        return this.any(dice, name)
      case 'cursor':
        return this.any(dice, 'next_cursor')
      case 'key':
        return dice.one(['feature_one', 'limit_one', `k${dice.upTo(1_000)}`])
      case 'code':
        return `c-${randomUUID()}`
      case 'value':
      case 'default':
        return dice.one(['true', 'false', '0', '15', '-3'])
      case 'url':
        return dice.one([this.#receiverUrl, 'https://10.0.0.1/', 'https://[::1]/', 'https://a.invalid/'])
      case 'success_url':
      case 'cancel_url':
        return 'https://shop.example.com/a?b=c'
      case 'subscribed_events':
        return dice.one(['*', 'licence.revoked', 'licence.revoked, licence.expired'])
      case 'domains':
        return [dice.one(['a.example.com', '*.example.com', 'localhost'])]
      case 'host':
        return dice.one(['a.example.com', 'BUILD_7', 'x'])
      case 'currency':
        return dice.one(['eur', 'eur', 'usd'])
      case 'connected_account':
        return 'acct_1Fuzz'
      case 'alert_email':
        return 'alerts@example.com'
      case 'price_id':
        return dice.one(['price_fuzz', `price_${dice.upTo(100)}`])
      case 'plan_code':
        return dice.one([trialCode, 'no-such-plan'])
      case 'metadata':
        return { [dice.one(['a', 'crm.id', '__proto__'])]: dice.one(['', 'v', 'x'.repeat(500)]) }
      case 'occurred_at':
      case 'updates_until':
      case 'ends_on':
      case 'expires_on':
        return dice.one(['2027-01-31T00:00:00Z', '9999-12-31T23:59:59.999Z', '2026-11-01T00:00:00.5+02:00'])
      case 'sale_id':
      case 'external_ref':
        return `ref-${dice.upTo(30)}`
      default:
        return undefined
    }
  }
}
