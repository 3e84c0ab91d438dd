import { createLogger } from '@licensing/process/log'
import { closedSets } from '@licensing/proto/closed-sets'
import type { SetName } from '@licensing/proto/closed-sets'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { appId, hashOf, startGateway } from './testing/gateway.ts'
import type { StandIns, TestGateway } from './testing/gateway.ts'

const logged: { err?: Error }[] = []
const log = createLogger('test', 'silent')
log.error = (line: unknown) => void logged.push(line as { err?: Error })

let gateway: TestGateway
beforeAll(async () => {
  gateway = await startGateway({}, log)
})
afterAll(() => gateway[Symbol.asyncDispose]())
beforeEach(() => void (logged.length = 0))

const at = { seconds: 1_793_000_000n, nanos: 0 }
const licence = { id: 'lic_1', status: 'active', createdAt: at, updatedAt: at, expiresOn: at }
const session = { id: 'cs_1', status: 'open', createdAt: at }
const endpoint = { id: 'whe_1', status: 'disabled', disabledReason: 'deleted', createdAt: at }
const entry = { type: 'issued', to: 'active', actor: 'key_1', at }
const refund = { id: 'rfd_1', lane: 'full_refund', status: 'succeeded', occurredAt: at }
const key = { id: 'key_1', scopes: ['read'], createdAt: at }
const app = `/v1/apps/${appId}`
const one = (prefix: string) => `${prefix}_01k9zj3v8qe5ktw2m4x6r7n8ab`
const page = { hasMore: false }

interface Reading {
  path: string
  /** Makes the peer's answer contain a word in place of a member of the set. */
  answer: (answers: StandIns, word: string) => void
}

const ofLicence = (path: string, answer: Reading['answer']): Reading => ({
  path: `/v1/licences/${one('lic')}${path}`,
  answer,
})
const history = (change: (word: string) => object) =>
  ofLicence('/history', ({ licensing }, word) => {
    licensing.getLicence = async () => ({ licence })
    licensing.listLicenceHistory = async () => ({ ...page, entries: [{ ...entry, ...change(word) }] })
  })
const refunds = (change: (word: string) => object): Reading => ({
  path: `${app}/refunds`,
  answer: ({ billing }, word) => {
    billing.listRefunds = async () => ({ ...page, refunds: [{ ...refund, ...change(word) }] })
  },
})
const endpoints = (change: (word: string) => object): Reading => ({
  path: `${app}/webhook-endpoints`,
  answer: ({ notifier }, word) => {
    notifier.listEndpoints = async () => ({ ...page, endpoints: [{ ...endpoint, ...change(word) }] })
  },
})

// Every field and parameter that is a member of a closed set. The POSTs for imports and sales are tested below.
const readings: [set: SetName, what: string, Reading][] = [
  [
    'licenceStatus',
    'a licence',
    ofLicence('', ({ licensing }, status) => {
      licensing.getLicence = async () => ({ licence: { ...licence, status } })
    }),
  ],
  [
    'suspensionReason',
    'a licence',
    ofLicence('', ({ licensing }, statusReason) => {
      licensing.getLicence = async () => ({ licence: { ...licence, statusReason } })
    }),
  ],
  [
    'entitlementKind',
    'a snapshot',
    ofLicence('', ({ licensing }, kind) => {
      licensing.getLicence = async () => ({ licence, entitlements: [{ key: 'seats', kind, value: '1' }] })
    }),
  ],
  [
    'licenceVerb',
    'what a licence allows',
    ofLicence('', ({ licensing }, verb) => {
      licensing.getLicence = async () => ({ licence, allowed: [verb] })
    }),
  ],
  [
    'entitlementKind',
    'a drift',
    ofLicence('', ({ licensing }, kind) => {
      licensing.getLicence = async () => ({ licence, planDrift: [{ key: 'seats', kind, planValue: '1' }] })
    }),
  ],
  ['historyType', 'history', history((type) => ({ type }))],
  ['licenceStatus', 'history, before', history((from) => ({ from }))],
  ['licenceStatus', 'history, after', history((to) => ({ to }))],
  [
    'planStatus',
    'a plan',
    {
      path: `${app}/plans/${one('pln')}`,
      answer: ({ catalog }, status) => {
        catalog.getPlan = async () => ({ id: 'pln_1', status, createdAt: at, updatedAt: at })
      },
    },
  ],
  [
    'entitlementKind',
    'a definition',
    {
      path: `${app}/entitlement-defs/${one('ent')}`,
      answer: ({ catalog }, kind) => {
        catalog.getEntitlementDefinition = async () => ({ id: 'ent_1', kind })
      },
    },
  ],
  [
    'scope',
    'an API key',
    {
      path: '/v1/api-keys',
      answer: ({ catalog }, scope) => {
        catalog.listApiKeys = async () => ({ ...page, apiKeys: [{ ...key, scopes: ['read', scope] }] })
      },
    },
  ],
  [
    'priceMode',
    'a price',
    {
      path: `${app}/plans/${one('pln')}/price`,
      answer: ({ billing }, mode) => {
        billing.getPrice = async () => ({ planId: 'pln_1', mode })
      },
    },
  ],
  [
    'processor',
    'the processor',
    {
      path: '/v1/processor',
      answer: ({ billing }, processor) => {
        billing.getProcessor = async () => ({ processor, connectedAt: at })
      },
    },
  ],
  [
    'checkoutStatus',
    'a checkout',
    {
      path: `${app}/checkout-sessions/${one('cs')}`,
      answer: ({ billing }, status) => {
        billing.getCheckoutSession = async () => ({ ...session, status })
      },
    },
  ],
  [
    'saleStatus',
    'a listed sale',
    {
      path: `${app}/sale-events`,
      answer: ({ billing }, status) => {
        billing.listSaleEvents = async () => ({
          ...page,
          saleEvents: [{ id: 'sale_1', saleId: 'order-1', status, occurredAt: at }],
        })
      },
    },
  ],
  [
    'searchMatch',
    'a search',
    {
      path: `${app}/search?q=acme`,
      answer: ({ billing, licensing }, matched) => {
        billing.findLicencesOfSale = async () => ({ licences: [] })
        licensing.searchLicences = async () => ({ found: [{ matched, licence }] })
      },
    },
  ],
  [
    'refundLane',
    'a refund',
    refunds((lane) => ({ lane, status: lane === 'chargeback' ? 'won' : 'succeeded' })),
  ],
  ['refundStatus', 'a refund', refunds((status) => ({ status }))],
  ['disputeStatus', 'a chargeback', refunds((status) => ({ status, lane: 'chargeback' }))],
  [
    'feeKind',
    'the ledger',
    {
      path: '/v1/fees',
      answer: ({ billing }, kind) => {
        billing.listFees = async () => ({ ...page, fees: [{ id: 'fee_1', kind, occurredAt: at }] })
      },
    },
  ],
  ['endpointStatus', 'an endpoint', endpoints((status) => ({ status }))],
  ['disabledReason', 'an endpoint', endpoints((disabledReason) => ({ disabledReason }))],
  [
    'deliveryStatus',
    'a delivery',
    {
      path: `${app}/webhook-deliveries/${one('dlv')}`,
      answer: ({ notifier }, status) => {
        notifier.getDelivery = async () => ({ delivery: { id: 'dlv_1', status, createdAt: at } })
      },
    },
  ],
  [
    'alertKind',
    'an alert',
    {
      path: '/v1/alerts',
      answer: ({ notifier }, kind) => {
        notifier.listAlerts = async () => ({ ...page, alerts: [{ id: 'alrt_1', kind, createdAt: at }] })
      },
    },
  ],
]

const expectInternal = (set: SetName, answer: { status: number; body: object; text?: string }) => {
  expect(answer.status).toBe(500)
  expect(answer.body).toMatchObject({ code: 'internal', detail: 'something failed on our side' })
  expect(JSON.stringify(answer.body)).not.toContain('frozen')
  expect(logged.map(({ err }) => err?.message)).toEqual([
    expect.stringContaining(`"frozen" is no ${set}: known are ${closedSets[set][0]}`),
  ])
}

test.each(readings)(
  'an unknown %s of %s is an internal error, logged with set and word',
  async (set, _, it) => {
    for (const word of closedSets[set]) {
      it.answer(gateway.answers, word)
      expect((await gateway.api.get(it.path)).status, word).toBe(200)
    }
    it.answer(gateway.answers, 'frozen')
    expectInternal(set, await gateway.api.get(it.path))
  },
)

test('an unknown scope of the calling key is an internal error, and the next call asks again', async () => {
  const key = gateway.keyWith(['read'])
  const known = gateway.keys.get(hashOf(key))!
  const scopes: string[] = known.scopes
  scopes.push('frozen')
  expectInternal('scope', await gateway.api.get(`${app}/licences`, { key }))
  scopes.pop()
  gateway.answers.licensing.listLicences = async () => ({ ...page, licences: [] })
  expect((await gateway.api.get(`${app}/licences`, { key })).status).toBe(200)
})

test('an unknown result of an import is an internal error', async () => {
  gateway.answers.licensing.importLicences = async () => ({
    items: [{ legacyKey: 'old', result: 'frozen' }],
    created: 0,
    existing: 0,
    failed: 0,
  })
  const items = [{ legacy_key: 'old', external_ref: 'customer', plan_id: one('pln') }]
  expectInternal('importResult', await gateway.api.post(`${app}/licences/import`, { body: { items } }))
})

test('an unknown status of a sale is an internal error', async () => {
  gateway.answers.billing.recordSaleEvent = async () => ({
    saleEvent: { id: 'sale_1', saleId: 'order-1', status: 'frozen' },
    created: true,
  })
  const body = {
    sale_id: 'order-1',
    external_ref: 'customer',
    plan_id: one('pln'),
    amount: 100,
    currency: 'eur',
    occurred_at: '2026-11-01T00:00:00Z',
  }
  expectInternal('saleStatus', await gateway.api.post(`${app}/sale-events`, { body }))
})
