import { apiClient } from '@licensing/test-support/api-client'
import type { ApiAnswer } from '@licensing/test-support/api-client'
import { eventually } from '@licensing/test-support/poll'
import { runAdmin } from '@licensing/test-support/run-admin'
import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import type { ApiDocument } from './document.ts'
import { allRows, expectInvalid, expectProblem, expectStatus, givenReceiver, givenStack } from './vendor.ts'
import { givenVendor, inMs, isoTime, unknownId } from './vendor.ts'

const stack = await givenStack()
const receiver = await givenReceiver()
const { api, accountId } = stack
/** Whether the account was made at the start of a stack in containers, without a command. */
const isBootstrapped = stack.runAdmin !== undefined

type Changes = Record<string, { from: unknown; to: unknown }>

interface Entry {
  id: string
  at: string
  actor: string
  actor_name: string | null
  operation: string
  app_id: string | null
  resource_id: string
  changes: Changes
  request_id: string | null
}

type Json = Record<string, unknown>

const entries = (query = '', key = stack.apiKey, limit = 200) =>
  allRows<Entry>(apiClient(stack.gatewayUrl, key), `/v1/audit-log${query}`, limit)

/** The entries of a request, when it has one. Every other entry of the log is at least as old as these. */
const entryOf = (requestId: string) =>
  eventually(
    async () => {
      const found = (await entries()).filter((entry) => entry.request_id === requestId)
      expect(found).toHaveLength(1)
      return found[0]!
    },
    { timeoutMs: 5_000 },
  )

/** Fields that change without a call, or are no part of the resource. */
const leftOut = /^(?:id|health|failing_attempts|suspended_licences)$|_(?:at|since)$/
const isSecret = (value: unknown) => typeof value === 'string' && /^(?:lsk|whsec)_/.test(value)

function fieldsOf(resource: Json | null): Map<string, unknown> {
  const { customer_page: page = {}, ...others } = resource ?? {}
  const ofPage = Object.entries(page as Json).map(
    ([name, value]) => [`customer_page.${name}`, value] as const,
  )
  return new Map([...Object.entries(others), ...ofPage].filter(([name]) => !leftOut.test(name)))
}

/** The changes that the log shows, from the resource as the API shows it before and after. */
function changesBetween(before: Json | null, after: Json | null): Changes {
  const [was, is] = [fieldsOf(before), fieldsOf(after)]
  const changed = [...new Set([...was.keys(), ...is.keys()])].flatMap((name) => {
    const change = { from: was.get(name) ?? null, to: is.get(name) ?? null }
    // It follows from the licences.
    const isCounted = name === 'active_licences' && before !== null
    if (isCounted || JSON.stringify(change.from) === JSON.stringify(change.to)) return []
    return [[name, isSecret(change.to) ? { from: null, to: null } : change]]
  })
  return Object.fromEntries(changed) as Changes
}

interface Step {
  method: 'post' | 'put' | 'patch' | 'delete'
  path: string
  body?: Json
  /** Where the resource is read before and after; a resource that is created is the answer. */
  at?: string
  created?: boolean
  changes?: Changes
  resource: string | ((answer: Json) => string)
  app?: string | null | ((answer: Json) => string)
  /** The same call again changes nothing. */
  isRepeatable?: boolean
  /** A call that is refused. */
  refused?: Json
}

/** Operations that change something and are not in the log. */
// prettier-ignore
const inOtherHistories: Record<string, string[]> = {
  'the history of the licence has it': [
    'issueLicence', 'importLicences', 'updateLicence', 'freeActivation', 'rotateLicenceKey', 'suspendLicence',
    'reactivateLicence', 'revokeLicence', 'retireLicence', 'setOverride', 'deleteOverride', 'takePlanValues',
    'activateOffline',
  ],
  'a product, a customer or the processor calls it': [
    'activate', 'refreshActivation', 'recordCallHome', 'releaseActivation', 'deactivate', 'migrateLegacyKey', 'startTrial',
    'signInWithLicenceKey', 'removeMachine', 'createCustomerLicenceFile', 'createSubscriptionSession', 'receiveStripeEvent',
  ],
  'it is a sale or a delivery': [
    'createCheckoutSession', 'replayCheckoutSession', 'recordSaleEvent', 'replayWebhookDelivery', 'reportSaleRefund',
    'reportSaleRenewal', 'reportSaleFailure', 'reportSaleCancellation',
  ],
  'nothing is connected yet': ['authorizeProcessor'],
}

/** A call of each operation that is in the log, in an order in which each changes something. */
async function* everyOperation(): AsyncGenerator<[operation: string, Step], void, Json> {
  const vendor = await givenVendor(stack)
  const { app, appId } = vendor
  const ofApp = { app: appId }

  const made = yield [
    'createApplication',
    { method: 'post', path: '/v1/apps', body: { name: 'Studio' }, created: true, resource: idOf, app: idOf },
  ]
  const other = `/v1/apps/${String(made['id'])}`
  yield [
    'updateApplication',
    {
      method: 'patch',
      path: other,
      at: other,
      body: { name: 'Studio 2', customer_page: { frees_per_day: 9, support_url: 'https://example.com/' } },
      resource: String(made['id']),
      app: String(made['id']),
      isRepeatable: true,
      refused: { name: '' },
    },
  ]
  yield [
    'updateAccount',
    {
      method: 'patch',
      path: '/v1/account',
      at: '/v1/account',
      body: { name: 'Vendor', alert_email: 'people@example.com' },
      resource: accountId,
      isRepeatable: true,
      refused: { alert_email: 'nobody' },
    },
  ]
  const key = yield [
    'createApiKey',
    {
      method: 'post',
      path: '/v1/api-keys',
      body: { name: 'bound', scopes: ['admin', 'read'], app_id: appId },
      created: true,
      resource: idOf,
      ...ofApp,
      refused: { name: 'x', scopes: [] },
    },
  ]
  yield [
    'revokeApiKey',
    {
      method: 'delete',
      path: `/v1/api-keys/${String(key['id'])}`,
      changes: {},
      resource: String(key['id']),
      ...ofApp,
      isRepeatable: true,
    },
  ]
  const person = { email: `${randomUUID()}@example.com`, role: 'viewer', app_id: appId }
  const added = yield [
    'createMember',
    {
      method: 'post',
      path: '/v1/members',
      body: person,
      created: true,
      resource: idOf,
      ...ofApp,
      refused: { ...person, role: 'root' },
    },
  ]
  const member = `/v1/members/${String(added['id'])}`
  const ofMember = { resource: String(added['id']), ...ofApp, isRepeatable: true }
  yield [
    'updateMember',
    {
      method: 'patch',
      path: member,
      at: member,
      body: { role: 'admin' },
      ...ofMember,
      refused: { role: 'x' },
    },
  ]
  yield ['removeMember', { method: 'delete', path: member, changes: {}, ...ofMember }]
  const defs = `${app}/entitlement-defs`
  const definition = yield [
    'createEntitlementDefinition',
    {
      method: 'post',
      path: defs,
      body: { key: 'export', kind: 'feature' },
      created: true,
      resource: idOf,
      ...ofApp,
      refused: { key: 'Export', kind: 'feature' },
    },
  ]
  const def = `${defs}/${String(definition['id'])}`
  const ofDef = { resource: String(definition['id']), ...ofApp }
  const changedDef = { display_name: 'Export', default: 'true' }
  yield [
    'updateEntitlementDefinition',
    { method: 'patch', path: def, at: def, body: changedDef, ...ofDef, isRepeatable: true },
  ]
  const planBody = {
    name: 'Pro',
    code: 'pro',
    entitlements: [{ key: 'export', value: 'false' }],
    metadata: { tier: 'gold' },
    trial_days: 14,
  }
  const plan = yield [
    'createPlan',
    { method: 'post', path: `${app}/plans`, body: planBody, created: true, resource: idOf, ...ofApp },
  ]
  const at = `${app}/plans/${String(plan['id'])}`
  const ofPlan = { resource: String(plan['id']), ...ofApp }
  const licence = await vendor.issue(String(plan['id']))
  yield [
    'updatePlan',
    {
      method: 'patch',
      path: at,
      at,
      body: { name: 'Pro 2', entitlements: [], metadata: { tier: null, other: 'x' }, trial_days: null },
      ...ofPlan,
      isRepeatable: true,
      refused: { code: '' },
    },
  ]
  const price = { price_id: `price_${randomUUID()}`, amount: 4_900, currency: 'eur', mode: 'payment' }
  yield [
    'setPrice',
    { method: 'put', path: `${at}/price`, at: `${at}/price`, body: price, ...ofPlan, isRepeatable: true },
  ]
  yield ['deletePrice', { method: 'delete', path: `${at}/price`, at: `${at}/price`, ...ofPlan }]
  const sessions = `/v1/licences/${licence.id}/customer-sessions`
  const ofLicence = { changes: {}, resource: licence.id, ...ofApp }
  yield ['createCustomerSession', { method: 'post', path: sessions, ...ofLicence, refused: { minutes: 1 } }]
  yield ['endCustomerSessions', { method: 'delete', path: sessions, ...ofLicence }]
  const endpoints = `${app}/webhook-endpoints`
  const hook = { url: receiver.url(`/${randomUUID()}`), subscribed_events: '*' }
  yield ['archivePlan', { method: 'post', path: `${at}/archive`, at, ...ofPlan, refused: {} }]
  const endpoint = yield [
    'createWebhookEndpoint',
    {
      method: 'post',
      path: endpoints,
      body: hook,
      created: true,
      resource: idOf,
      ...ofApp,
      refused: { ...hook, url: 'http://example.com/' },
    },
  ]
  const one = `${endpoints}/${String(endpoint['id'])}`
  const ofEndpoint = { resource: String(endpoint['id']), ...ofApp }
  const token = `token-${randomUUID()}`
  const changed = { description: 'CI', headers: { 'X-Token': token }, plans: [String(plan['id'])] }
  const update = { method: 'patch', path: one, at: one, ...ofEndpoint, isRepeatable: true } as const
  yield ['updateWebhookEndpoint', { ...update, body: changed, refused: { url: 'http://example.com/' } }]
  const otherToken = { headers: { 'X-Token': `${token}-2` } }
  const newHeader = { headers: { from: null, to: null } }
  yield ['updateWebhookEndpoint', { ...update, body: otherToken, changes: newHeader }]
  const standard = {
    signature: { from: 'default', to: 'standard' },
    secret: { from: null, to: null },
    plans: { from: changed.plans, to: null },
    paused: { from: false, to: true },
  }
  const standardBody = { signature: 'standard', plans: null, paused: true }
  yield ['updateWebhookEndpoint', { ...update, body: standardBody, changes: standard }]
  yield ['updateWebhookEndpoint', { ...update, body: { paused: false } }]
  const newSecret = { secret: { from: null, to: null } }
  yield [
    'rotateWebhookSecret',
    { method: 'post', path: `${one}/rotate-secret`, changes: newSecret, ...ofEndpoint },
  ]
  yield ['sendTestEvent', { method: 'post', path: `${one}/test`, changes: {}, ...ofEndpoint }]
  // The licence was suspended before the endpoint was registered.
  const recover = { method: 'post', path: `${one}/recover`, changes: {}, ...ofEndpoint } as const
  const missed = { since: inMs(-600_000), types: ['licence.suspended'] }
  await eventually(async () => {
    const { body } = await api.get<{ data: Json[] }>(`/v1/events?limit=200`)
    expect(body.data.some(({ type }) => type === 'licence.suspended')).toBe(true)
  })
  yield ['recoverWebhookEndpoint', { ...recover, body: missed, isRepeatable: true, refused: { since: 'x' } }]
  yield ['deleteWebhookEndpoint', { method: 'delete', path: one, at: one, ...ofEndpoint }]
  yield ['restorePlan', { method: 'post', path: `${at}/restore`, at, ...ofPlan }]
  yield ['deleteEntitlementDefinition', { method: 'delete', path: def, at: def, ...ofDef }]
  const connected = { processor: 'stripe', connected_account: `acct_1${randomUUID().replaceAll('-', '')}` }
  yield [
    'connectProcessor',
    {
      method: 'put',
      path: '/v1/processor',
      at: '/v1/processor',
      body: connected,
      resource: accountId,
      isRepeatable: true,
      refused: { ...connected, connected_account: 'acct_missing1' },
    },
  ]
  const cap = { cap_minor: 5_000, currency: 'eur' }
  yield [
    'setSpendCap',
    {
      method: 'put',
      path: '/v1/spend-cap',
      at: '/v1/spend-cap',
      body: cap,
      resource: accountId,
      isRepeatable: true,
      refused: { cap_minor: -1, currency: 'eur' },
    },
  ]
}

const idOf = (answer: Json) => String(answer['id'])
const read = async (path: string | undefined) => {
  if (path === undefined) return null
  const { status, body } = await api.get(path)
  return status === 200 ? body : null
}

test('every operation of the document that changes something is in the log once, as the API shows the change, and no secret is', async () => {
  const document = (await api.get<ApiDocument>('/openapi.json')).body
  const { data: known } = (await api.get<{ data: { id: string; name: string }[] }>('/v1/api-keys')).body
  const expected = new Map<string, Omit<Entry, 'id' | 'at'>>()
  const unlisted: string[] = []
  const shown: string[] = []
  const send = async ({ method, path }: Step, requestId: string, key: string, body?: Json) => {
    const headers = { 'x-request-id': requestId, ...(method === 'post' && { 'idempotency-key': key }) }
    const answer = await api[method](path, { headers, ...(body && { body }) })
    for (const [name, value] of Object.entries(answer.body ?? {})) {
      if (isSecret(value)) shown.push(String(value))
      if (name === 'url') shown.push(...String(value).split('#cst_').slice(1))
    }
    return answer as ApiAnswer<Json>
  }
  const newRequest = (isListed: boolean) => {
    const requestId = randomUUID()
    if (!isListed) unlisted.push(requestId)
    return requestId
  }
  const operations = everyOperation()
  for (let next = await operations.next({}); !next.done;) {
    const [operation, step] = next.value
    const { at, body, resource, app = null } = step
    const requestId = newRequest(true)
    const key = randomUUID()
    if (step.refused) {
      const refused = await send(step, newRequest(false), randomUUID(), { ...step.refused, unknown: 1 })
      expect(refused.status, operation).toBeGreaterThanOrEqual(400)
    }
    const before = await read(at)
    const answer = await send(step, requestId, key, body)
    expect(answer.status, `${operation}: ${JSON.stringify(answer.body)}`).toBeLessThan(300)
    const after = step.created ? answer.body : await read(at)
    if (step.method === 'post') {
      const replay = await send(step, newRequest(false), key, body)
      expect(replay.headers.get('idempotent-replayed'), operation).toBe('true')
    }
    if (step.isRepeatable) {
      const again = await send(step, newRequest(false), randomUUID(), body)
      expect(again.status, operation).toBe(answer.status)
    }
    expected.set(requestId, {
      actor: known[0]!.id,
      actor_name: known[0]!.name,
      operation,
      app_id: typeof app === 'function' ? app(answer.body) : app,
      resource_id: typeof resource === 'function' ? resource(answer.body) : resource,
      changes: step.changes ?? changesBetween(before, after),
      request_id: requestId,
    })
    next = await operations.next(answer.body ?? {})
  }

  const [last] = [...expected.keys()].slice(-1)
  await entryOf(last!)
  await eventually(async () => {
    const listed = new Set((await entries()).map(({ request_id: id }) => id))
    expect([...expected.keys()].filter((id) => !listed.has(id))).toEqual([])
  })
  const log = await entries()
  for (const [requestId, entry] of expected) {
    const found = log.filter(({ request_id: id }) => id === requestId)
    expect(found, entry.operation).toEqual([
      { ...entry, id: expect.stringMatching(/^aud_/), at: expect.stringMatching(isoTime) },
    ])
  }
  expect(log.filter(({ request_id: id }) => unlisted.includes(id!))).toEqual([])
  expect(shown.length).toBeGreaterThan(3)
  const whole = JSON.stringify(log)
  expect(shown.filter((secret) => whole.includes(secret))).toEqual([])
  expect(whole).not.toContain('token-')

  const changing = Object.entries(document.paths).flatMap(([, methods]) =>
    Object.entries(methods).flatMap(([method, { operationId }]) => (method === 'get' ? [] : [operationId])),
  )
  const listed = [...expected.values()].map(({ operation }) => operation)
  const named = new Set([...listed, ...Object.values(inOtherHistories).flat()])
  expect(changing.toSorted()).toEqual([...named].toSorted())
})

test('it is read with the scope admin, newest first, by actor, operation, application and time', async () => {
  const vendor = await givenVendor(stack)
  const bound = await vendor.keyWith({ scopes: ['admin'], app_id: vendor.appId })
  const reader = await vendor.keyWith({ scopes: ['read'] })
  await vendor.define('one', 'feature')
  const between = new Date().toISOString()
  const byBound = apiClient(stack.gatewayUrl, bound.key)
  const two = { key: 'two', kind: 'feature' }
  expectStatus(await byBound.post(`${vendor.app}/entitlement-defs`, { body: two }), 201)
  const of = (operation: string, more = '') =>
    entries(`?operation=${operation}&app=${vendor.appId}${more}`, stack.apiKey, 1)
  await eventually(async () => expect(await of('createEntitlementDefinition')).toHaveLength(2))
  expectProblem(await api.get('/v1/audit-log', { key: reader.key }), 403, 'insufficient_scope')

  const log = await entries(`?app=${vendor.appId}`, stack.apiKey, 2)
  expect(log.map(({ at }) => at)).toEqual(
    log
      .map(({ at }) => at)
      .toSorted()
      .toReversed(),
  )
  expect(new Set(log.map(({ id }) => id)).size).toBe(log.length)
  expect(log.map(({ operation }) => operation)).toEqual([
    'createEntitlementDefinition',
    'createEntitlementDefinition',
    'createApiKey',
    'createApplication',
  ])
  expect(await entries('', bound.key)).toEqual(log)
  expect(await entries(`?app=${unknownId('app')}`, bound.key)).toEqual([])
  expect(await entries(`?app=${stack.appId}`, bound.key)).toEqual([])
  expect(await entries(`?actor=${bound.id}`)).toEqual([log[0]])
  expect(log[0]).toMatchObject({
    actor: bound.id,
    actor_name: 'another',
    changes: { key: { from: null, to: 'two' } },
  })
  expect(await of('createEntitlementDefinition', `&since=${between}`)).toEqual([log[0]])
  expect(await of('createEntitlementDefinition', `&until=${between}`)).toEqual([log[1]])
  expect(await of('createEntitlementDefinition', `&since=${log[0]!.at}&until=${log[0]!.at}`)).toEqual([])
  for (const query of ['operation=nothing', 'actor=nobody', 'app=none', `actor=${unknownId('key')}`])
    expect(await entries(`?${query}`)).toEqual([])
  expectInvalid(await api.get('/v1/audit-log?since=yesterday'), '/since')
  expectInvalid(await api.get('/v1/audit-log?limit=0'), '/limit')
  expectProblem(await api.get('/v1/audit-log?cursor=x'), 400, 'bad_request')
})

test('a command of the operator that changes the account is in the log, without a request', async () => {
  const { appId } = await givenVendor(stack)
  const admin = async (...args: string[]) => {
    const { code, stdout, stderr } = await runAdmin(stack, ...args)
    expect(code, stderr).toBe(0)
    return JSON.parse(stdout.split('\n')[0]!) as Json
  }
  const account = ['--account', accountId]
  const made = await admin('create-key', ...account, '--name', 'of the operator', '--scopes', 'read')
  await admin('set-fee', ...account, '--bps', '250', '--fixed-minor', '7')
  await admin('set-fee', ...account, '--bps', '250')
  await admin('set-quota', ...account, '--webhook-endpoints', '60')
  await admin('set-quota', ...account, '--webhook-endpoints', '60')
  await admin('revoke', String(made['key_id']))
  await admin('revoke', String(made['key_id']))
  const { root_key: rootKey } = await admin('rotate-root-key', '--app', appId)
  await admin('rotate-root-key', '--app', appId, '--retire', '--force')
  await admin('rotate-root-key', '--app', appId, '--retire')
  const other = await admin('create-account', '--name', 'Other', '--alert-email', 'ops@example.com')
  const byOperator = {
    actor: 'operator',
    actor_name: null,
    request_id: null,
    id: expect.stringMatching(/^aud_/),
    at: expect.stringMatching(isoTime),
  }
  const secret = { from: null, to: null }
  await eventually(async () => {
    const found = await entries('?actor=operator')
    expect(
      found.toSorted((a, b) => a.operation.localeCompare(b.operation) || a.id.localeCompare(b.id)),
    ).toEqual(
      [
        ...(isBootstrapped
          ? []
          : [
              {
                operation: 'create-account',
                app_id: null,
                resource_id: accountId,
                changes: { name: { from: null, to: 'Demo' } },
              },
            ]),
        {
          operation: 'create-key',
          app_id: null,
          resource_id: made['key_id'],
          changes: {
            name: { from: null, to: 'of the operator' },
            scopes: { from: null, to: ['read'] },
            last_four: { from: null, to: String(made['key']).slice(-4) },
            key: secret,
          },
        },
        { operation: 'revoke', app_id: null, resource_id: made['key_id'], changes: {} },
        {
          operation: 'rotate-root-key',
          app_id: appId,
          resource_id: appId,
          changes: { root_key: { from: expect.stringMatching(/^lrk_/), to: rootKey } },
        },
        {
          operation: 'rotate-root-key',
          app_id: appId,
          resource_id: appId,
          changes: { retire: { from: null, to: true } },
        },
        {
          operation: 'set-fee',
          app_id: null,
          resource_id: accountId,
          changes: { fixed_minor: { from: 5, to: 7 } },
        },
        {
          operation: 'set-quota',
          app_id: null,
          resource_id: accountId,
          changes: { webhook_endpoints: { from: 50, to: 60 } },
        },
      ].map((entry) => ({ ...byOperator, ...entry })),
    )
    const [first] = await entries('', String(other['key']))
    expect(first!.changes).toEqual({
      name: { from: null, to: 'Other' },
      alert_email: { from: null, to: 'ops@example.com' },
    })
  })
})
