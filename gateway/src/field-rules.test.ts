import { expect, test } from 'vitest'
import { requestExamples } from './openapi/examples.ts'
import { routes } from './routes/table.ts'
import { appId, gatewayOfFile, pathOf } from '../test/gateway.ts'

const gateway = await gatewayOfFile()
const known = { key: 'export_pdf', kind: 'feature', value: 'true' }
gateway.answers.licensing.getLicence = async () => ({ entitlements: [known] })
gateway.answers.catalog.getPlan = async () => ({})
gateway.answers.products.checkActivation = async () => ({})

const numbers = ['1', 1.5, true, [], {}]
const timestamps = [1, true, '', 'tomorrow', '2027-02-29T00:00:00Z', '2027-01-01']
const objects = ['x', 1, true, []]
const manyEntries = Object.fromEntries(Array.from({ length: 51 }, (_, at) => [`n${at}`, 'v']))
const text500 = '😀'.repeat(500)

/** Values that an entry of metadata must not have. */
const entryValues = [1, true, [], {}, `${text500}x`, 'a\0', '\ud800']
const entryNames = ['', 'a b', 'ä', 'a/b', 'n'.repeat(41)]

/** The operations, the field, refused values, accepted values, and further members of the body. */
type Rule = [operations: string, field: string, refused: unknown[], accepted: unknown[], beside?: object]

const stored = 'issueLicence createPlan createCheckoutSession recordSaleEvent'
const changed = 'updateLicence updatePlan'

// The fields that docs/guides/licences.md and docs/guides/entitlements.md describe.
const rules: Rule[] = [
  [
    stored,
    '/metadata',
    [...objects, manyEntries],
    [null, {}, { a: '' }, { 'A-z_0.9': text500, ['n'.repeat(40)]: 'v', constructor: 'v' }],
  ],
  [stored, '/metadata/a', [null, ...entryValues], ['', text500]],
  [changed, '/metadata', objects, [null, {}, { a: null }, { a: 'b', constructor: null }]],
  [changed, '/metadata/a', entryValues, [null, '']],
  ['importLicences', '/items/0/metadata', objects, [null, {}]],
  // An item of an import fails alone if its values break a rule. A value of another type is an error of the whole.
  ['importLicences', '/items/0/metadata/a', [null, 1, 'a\0'], ['', `${text500}x`]],
  ['importLicences', '/items/0/updates_until', [1, true, [], {}], [null, '2001-01-01T00:00:00Z', 'tomorrow']],
  [
    'importLicences',
    '/items/0/expires_on',
    [1, true, [], {}],
    [null, '2001-01-01T00:00:00Z', '', '2030-01-31'],
  ],
  ['importLicences', '/items/0/restrictions', objects, [null, {}]],
  ['importLicences', '/items/0/restrictions/domains', ['x', 1, {}], [null, [], ['-'], ['']]],
  ...['max_activations', 'max_seats', 'max_concurrent', 'lease_minutes'].map((name): Rule => [
    'importLicences',
    `/items/0/restrictions/${name}`,
    ['1', true, [], {}],
    [null, 0, -1, 1.5, 2 ** 31, 1e300, 3],
  ]),
  [
    'issueLicence updateLicence recordSaleEvent',
    '/updates_until',
    timestamps,
    [null, '2001-01-01T00:00:00Z', '2099-01-01T00:00:00+02:00'],
  ],
  [
    'issueLicence updateLicence',
    '/restrictions/max_concurrent',
    [...numbers, 0, -1, 2 ** 31],
    [1, 2 ** 31 - 1],
  ],
  [
    'issueLicence updateLicence',
    '/restrictions/lease_minutes',
    [...numbers, 0, -1, 10_081],
    [null, 1, 10_080],
    { restrictions: { max_concurrent: 1 } },
  ],
  [
    'issueLicence updateLicence',
    '/restrictions/lease_minutes',
    [1, 15],
    [null],
    { restrictions: { max_activations: 1 } },
  ],
  ['setOverride', '/value', [null, 1, true, [], 'a\0'], ['true']],
  ['setOverride', '/ends_on', timestamps, [null, '2099-01-01T00:00:00Z']],
  ['setOverride', '/note', [1, [], `${text500}x`, 'a\0'], [null, '', text500]],
  ['setPrice', '/updates_months', [...numbers, 0, 121], [null, 1, 120]],
  ['createPlan updatePlan', '/trial_days', [...numbers, 0, 367], [null, 1, 366]],
  ['updateApplication', '/expiring_notice_days', [...numbers, -1, 91], [null, 0, 90]],
  ['updateApplication', '/name', [1, '', 'n'.repeat(201)], [null, 'n']],
  ['activate', '/replace', [1, true, '', 'newest'], [null, 'oldest']],
  ['activateOffline', '/replace', ['oldest', null], []],
  ['startTrial', '/plan_code', [null, 1, []], ['pro', '', 'a b']],
  ['startTrial', '/fingerprint', [null, 1, '', 'f'.repeat(129)], ['f'.repeat(128)]],
  ['startTrial', '/host', [null, 1, '', 'a\nb'], ['host']],
  ['startTrial', '/product_version', [null, 1, ''], ['1']],
  ['startTrial', '/licence_key', ['x'], []],
  ['releaseActivation', '/host', ['x'], []],
  ['takePlanValues rotateLicenceKey', '/key', ['x', null], []],
]

const rows = rules.flatMap(([operations, field, refused, accepted, beside]) =>
  operations.split(' ').map((operationId) => [field, operationId, refused, accepted, beside] as const),
)

test.each(rows)(
  'the error for an invalid %s of %s points to it',
  async (field, operationId, refused, accepted, beside) => {
    const send = (value: unknown) => call(operationId, withValue(operationId, field, value, beside))
    for (const value of refused) {
      const { status, errors } = await send(value)
      expect(status, JSON.stringify(value)).toBe(422)
      expect(errors.map(({ pointer }) => pointer)).toEqual([field])
    }
    for (const value of accepted) {
      const { status, errors } = await send(value)
      // No service answers, so only the gateway's own errors are checked.
      expect(errors, `${JSON.stringify(value)}: ${status}`).toEqual([])
    }
  },
)

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
  gateway.answers.licensing.updateLicence = async ({ fields, mask }) => {
    const { metadata } = fields!
    sent.push(Object.entries(metadata?.set ?? {}), metadata?.remove, metadata?.clear, mask!.paths)
    return { id: 'lic_1', status: 'active', metadata: metadata?.set ?? {} }
  }
  const path = pathOf('/v1/licences/{licence_id}')
  const entries = [
    ['__proto__', '1'],
    ['constructor', '2'],
  ]
  const body = '{"metadata":{"__proto__":"1","constructor":"2","gone":null,"toString":null}}'
  const answer = await gateway.api.patch(path, { body })
  expect(answer.status).toBe(200)
  expect(Object.entries(answer.body['metadata'] as object)).toEqual(entries)
  await gateway.api.patch(path, { body: { metadata: null } })
  await gateway.api.patch(path, { body: {} })
  const paths = ['metadata']
  const unchanged = [[], undefined, undefined, []]
  expect(sent).toEqual([entries, ['gone', 'toString'], false, paths, [], [], true, paths, ...unchanged])
})

test('licences can be filtered by at most three metadata entries with different names', async () => {
  const filters: string[] = []
  gateway.answers.licensing.listLicences = async ({ metadata, trial }) => {
    filters.push(`${Object.entries(metadata?.entries ?? {}).join(';')} ${trial}`)
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
  expect(filters).toEqual(['a,1 true', 'a,;__proto__,2 false', ' undefined'])
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

/** The example of an operation with a value at a field. */
function withValue(operationId: string, field: string, value: unknown, beside?: object): unknown {
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
