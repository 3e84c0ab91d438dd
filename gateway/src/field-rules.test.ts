import { afterAll, beforeAll, expect, test } from 'vitest'
import { requestExamples } from './openapi/examples.ts'
import { routes } from './routes/table.ts'
import { appId, pathOf, startGateway } from './testing/gateway.ts'
import type { TestGateway } from './testing/gateway.ts'

let gateway: TestGateway

beforeAll(async () => {
  gateway = await startGateway()
  const known = { key: 'export_pdf', kind: 'feature', value: 'true' }
  gateway.answers.licensing.getLicence = async () => ({ entitlements: [known] })
  gateway.answers.catalog.getPlan = async () => ({})
  gateway.answers.products.checkActivation = async () => ({})
})
afterAll(() => gateway[Symbol.asyncDispose]())

const numbers = ['1', 1.5, true, [], {}]
const timestamps = [1, true, '', 'tomorrow', '2027-02-29T00:00:00Z', '2027-01-01']
const objects = ['x', 1, true, []]
const manyEntries = Object.fromEntries(Array.from({ length: 51 }, (_, at) => [`n${at}`, 'v']))
const text500 = '😀'.repeat(500)

/** Values that an entry of metadata must not have. */
const entryValues = [1, true, [], {}, `${text500}x`, 'a\0', '\ud800']
const entryNames = ['', 'a b', 'ä', 'a/b', 'n'.repeat(41)]

interface Rule {
  operations: string[]
  field: string
  /** Further members of the body. */
  beside?: object
  refused: unknown[]
  accepted: unknown[]
}

// Additions, section 14.
const rules: Rule[] = [
  {
    operations: ['issueLicence', 'createPlan', 'createCheckoutSession', 'recordSaleEvent'],
    field: '/metadata',
    refused: [...objects, manyEntries],
    accepted: [null, {}, { a: '' }, { 'A-z_0.9': text500, ['n'.repeat(40)]: 'v', constructor: 'v' }],
  },
  {
    operations: ['issueLicence', 'createPlan', 'createCheckoutSession', 'recordSaleEvent'],
    field: '/metadata/a',
    refused: [null, ...entryValues],
    accepted: ['', text500],
  },
  {
    operations: ['updateLicence', 'updatePlan'],
    field: '/metadata',
    refused: objects,
    accepted: [null, {}, { a: null }, { a: 'b', constructor: null }],
  },
  {
    operations: ['updateLicence', 'updatePlan'],
    field: '/metadata/a',
    refused: entryValues,
    accepted: [null, ''],
  },
  { operations: ['importLicences'], field: '/items/0/metadata', refused: objects, accepted: [null, {}] },
  {
    operations: ['importLicences'],
    field: '/items/0/metadata/a',
    refused: [null, 1, 'a\0'],
    // The service checks the lengths, and refuses only the items that break them.
    accepted: ['', `${text500}x`],
  },
  {
    operations: ['issueLicence', 'updateLicence', 'recordSaleEvent'],
    field: '/updates_until',
    refused: timestamps,
    accepted: [null, '2001-01-01T00:00:00Z', '2099-01-01T00:00:00+02:00'],
  },
  {
    operations: ['importLicences'],
    field: '/items/0/updates_until',
    refused: [1, true, [], {}],
    // The service checks the text, and refuses only the items with an invalid one.
    accepted: [null, '2001-01-01T00:00:00Z', 'tomorrow'],
  },
  {
    operations: ['issueLicence', 'updateLicence'],
    field: '/restrictions/max_concurrent',
    refused: [...numbers, 0, -1, 2 ** 31],
    accepted: [1, 2 ** 31 - 1],
  },
  {
    operations: ['issueLicence', 'updateLicence'],
    field: '/restrictions/lease_minutes',
    beside: { restrictions: { max_concurrent: 1 } },
    refused: [...numbers, 0, -1, 10_081],
    accepted: [null, 1, 10_080],
  },
  {
    operations: ['issueLicence', 'updateLicence'],
    field: '/restrictions/lease_minutes',
    beside: { restrictions: { max_activations: 1 } },
    refused: [1, 15],
    accepted: [null],
  },
  { operations: ['setOverride'], field: '/value', refused: [null, 1, true, [], 'a\0'], accepted: ['true'] },
  {
    operations: ['setOverride'],
    field: '/ends_on',
    refused: timestamps,
    accepted: [null, '2099-01-01T00:00:00Z'],
  },
  {
    operations: ['setOverride'],
    field: '/note',
    refused: [1, [], `${text500}x`, 'a\0'],
    accepted: [null, '', text500],
  },
  {
    operations: ['setPrice'],
    field: '/updates_months',
    refused: [...numbers, 0, 121],
    accepted: [null, 1, 120],
  },
  {
    operations: ['createPlan', 'updatePlan'],
    field: '/trial_days',
    refused: [...numbers, 0, 367],
    accepted: [null, 1, 366],
  },
  {
    operations: ['updateApplication'],
    field: '/expiring_notice_days',
    refused: [...numbers, -1, 91],
    accepted: [null, 0, 90],
  },
  {
    operations: ['updateApplication'],
    field: '/name',
    refused: [1, '', 'n'.repeat(201)],
    accepted: [null, 'n'],
  },
  {
    operations: ['activate'],
    field: '/replace',
    refused: [1, true, '', 'newest'],
    accepted: [null, 'oldest'],
  },
  { operations: ['activateOffline'], field: '/replace', refused: ['oldest', null], accepted: [] },
  { operations: ['startTrial'], field: '/plan_code', refused: [null, 1, []], accepted: ['pro', '', 'a b'] },
  {
    operations: ['startTrial'],
    field: '/fingerprint',
    refused: [null, 1, '', 'f'.repeat(129)],
    accepted: ['f'.repeat(128)],
  },
  { operations: ['startTrial'], field: '/host', refused: [null, 1, '', 'a b'], accepted: ['host'] },
  { operations: ['startTrial'], field: '/product_version', refused: [null, 1, ''], accepted: ['1'] },
  { operations: ['startTrial'], field: '/licence_key', refused: ['x'], accepted: [] },
  { operations: ['releaseActivation'], field: '/host', refused: ['x'], accepted: [] },
  { operations: ['takePlanValues', 'rotateLicenceKey'], field: '/key', refused: ['x', null], accepted: [] },
]

const rows = rules.flatMap((rule) =>
  rule.operations.map((operationId) => [`${rule.field} of ${operationId}`, operationId, rule] as const),
)

test.each(rows)('the error for an invalid %s points to it', async (_name, operationId, rule) => {
  const send = (value: unknown) => call(operationId, withValue(operationId, rule, value))
  for (const value of rule.refused) {
    const { status, errors } = await send(value)
    expect(status, JSON.stringify(value)).toBe(422)
    expect(errors.map(({ pointer }) => pointer)).toEqual([rule.field])
  }
  for (const value of rule.accepted) {
    const { status, errors } = await send(value)
    // No service answers, so only the gateway's own errors are checked.
    expect(errors, `${JSON.stringify(value)}: ${status}`).toEqual([])
  }
})

test('the error for an invalid name of a metadata entry points to it', async () => {
  const metadata = Object.fromEntries([...entryNames, '__proto__', 'good'].map((name) => [name, 'v']))
  for (const operationId of ['issueLicence', 'createPlan', 'updateLicence', 'updatePlan']) {
    const { errors } = await call(operationId, { ...requestExamples[operationId], metadata })
    const pointers = entryNames.map((name) => `/metadata/${name.replace('/', '~1')}`)
    expect(errors.map(({ pointer }) => pointer)).toEqual(pointers)
  }
})

test('an entry may have any name that the rule allows, even a name of an object’s property such as __proto__', async () => {
  const sent: unknown[] = []
  gateway.answers.licensing.updateLicence = async ({ metadata }) => {
    sent.push(Object.entries(metadata?.set ?? {}), metadata?.remove, metadata?.clear)
    return { id: 'lic_1', status: 'active', metadata: metadata?.set ?? {} }
  }
  const path = pathOf('/v1/licences/{licence_id}')
  const answer = await gateway.api.patch(path, {
    body: '{"metadata":{"__proto__":"1","constructor":"2","gone":null,"toString":null}}',
  })
  expect(answer.status).toBe(200)
  expect(Object.entries(answer.body['metadata'] as object)).toEqual([
    ['__proto__', '1'],
    ['constructor', '2'],
  ])
  await gateway.api.patch(path, { body: { metadata: null } })
  await gateway.api.patch(path, { body: {} })
  const entries = [
    ['__proto__', '1'],
    ['constructor', '2'],
  ]
  expect(sent).toEqual([entries, ['gone', 'toString'], false, [], [], true, [], undefined, undefined])
})

test('licences can be filtered by at most three metadata entries with different names', async () => {
  const filters: unknown[] = []
  gateway.answers.licensing.listLicences = async ({ metadata, trial }) => {
    filters.push([Object.entries(metadata?.entries ?? {}), trial])
    return {}
  }
  const list = (query: string) =>
    gateway.api.get<{ errors: { pointer: string }[] }>(`/v1/apps/${appId}/licences?${query}`)
  for (const query of [
    'metadata[a]=1&trial=true',
    'metadata%5Ba%5D=&metadata[__proto__]=2&trial=false',
    'limit=1',
  ]) {
    expect((await list(query)).status, query).toBe(200)
  }
  expect(filters).toEqual([
    [[['a', '1']], true],
    [
      [
        ['a', ''],
        ['__proto__', '2'],
      ],
      false,
    ],
    [[], undefined],
  ])
  for (const [query, pointer] of [
    ['metadata[a]=1&metadata[b]=1&metadata[c]=1&metadata[d]=1', '/metadata'],
    ['metadata[a]=1&metadata[a]=2', '/metadata/a'],
    ['metadata[a]=1&metadata%5Ba%5D=1', '/metadata/a'],
    ['metadata[a%20b]=1', '/metadata/a b'],
    ['metadata[a][b]=1', '/metadata/a][b'],
    ['metadata[]=1', '/metadata/'],
    [`metadata[${'n'.repeat(41)}]=1`, `/metadata/${'n'.repeat(41)}`],
    [`metadata[a]=${'v'.repeat(501)}`, '/metadata/a'],
    ['metadata[a]=%00', '/metadata/a'],
    ['metadata=1', '/metadata'],
    ['metadata[a=1', '/metadata[a'],
    ['metadata.a=1', '/metadata.a'],
    ['trial=1', '/trial'],
    ['trial=', '/trial'],
    ['trial=True', '/trial'],
  ]) {
    const { status, body } = await list(query!)
    expect([status, body.errors.map((error) => error.pointer)], query).toEqual([422, [pointer]])
  }
  expect(filters).toHaveLength(3)
})

test('an entitlement that the licence does not have is refused before a wrong body', async () => {
  const overrides = pathOf('/v1/licences/{licence_id}/overrides')
  for (const key of ['no_such_key', 'Export', 'a%00', 'a'.repeat(65), '%2e%2e']) {
    for (const body of [{ value: 1 }, {}]) {
      expect((await gateway.api.put(`${overrides}/${key}`, { body })).status, key).toBe(404)
    }
  }
  expect((await gateway.api.put(`${overrides}/Export`, { body: { value: 'true' } })).status).toBe(404)
  expect((await gateway.api.delete(`${overrides}/Export`)).status).toBe(404)
  expect((await gateway.api.delete(`${overrides}/export_pdf?x=1`)).status).toBe(404)
})

async function call(operationId: string, body: unknown) {
  const { method, path } = routes.find((route) => route.operationId === operationId)!
  const send = gateway.api[method.toLowerCase() as 'post']
  const { status, body: answer } = await send<{ errors?: { pointer: string }[] } | undefined>(pathOf(path), {
    body,
    headers: { 'idempotency-key': 'k' },
  })
  return { status, errors: answer?.errors ?? [] }
}

/** The example of an operation with a value at the rule's field. */
function withValue(operationId: string, { field, beside }: Rule, value: unknown): unknown {
  const body: unknown = structuredClone({ ...requestExamples[operationId], ...beside })
  const names = field.split('/').slice(1)
  const last = names.pop()!
  const holder = names.reduce<Record<string, unknown>>(
    (at, name) => (at[name] ??= {}) as Record<string, unknown>,
    body as Record<string, unknown>,
  )
  holder[last] = value
  return body
}
