import { expect, test } from 'vitest'
import {
  allRows,
  expectInvalid,
  expectNotFound,
  expectProblem,
  expectStatus,
  givenStack,
  givenVendor,
} from './vendor.ts'
import type { Licence, Plan } from './vendor.ts'

const stack = await givenStack()
const given = () => givenVendor(stack)

test('a definition is created with defaults, read, changed and listed', async () => {
  const { api, app } = await given()
  const path = `${app}/entitlement-defs`
  const feature = await api.post(path, { body: { key: 'export', kind: 'feature' } })
  expect(feature.status).toBe(201)
  expect(feature.body).toMatchObject({
    id: expect.stringMatching(/^ent_[0-9a-z]{26}$/) as string,
    key: 'export',
    kind: 'feature',
    display_name: 'export',
    default: 'false',
  })
  const limit = await api.post<{ id: string }>(path, {
    body: { key: 'seats', kind: 'limit', display_name: null, default: null },
  })
  expect(limit.body).toMatchObject({ display_name: 'seats', default: '0' })
  const one = `${path}/${limit.body.id}`
  const patch = (body: object) => api.patch(one, { body })
  expect((await patch({ default: '-12' })).body).toMatchObject({ default: '-12', display_name: 'seats' })
  const changed = await patch({ display_name: 'Seats' })
  expect(changed.body).toMatchObject({ key: 'seats', default: '-12', display_name: 'Seats' })
  expect(await patch({})).toMatchObject({ status: 200, body: changed.body })
  expectInvalid(await patch({ key: 'chairs' }), '/key')
  expectInvalid(await patch({ kind: 'feature' }), '/kind')
  expectInvalid(await patch({ default: 'true' }), '/default')
  expect((await api.get(one)).body).toEqual(changed.body)
  expect(await allRows(api, path, 1)).toEqual([changed.body, feature.body])
})

test('a definition’s key, kind and default are validated', async () => {
  const { api, app } = await given()
  const send = (body: unknown) => api.post(`${app}/entitlement-defs`, { body })
  for (const key of ['Export', '1st', '_x', 'a-b', '', 'é', 'a\n']) {
    expectInvalid(await send({ key, kind: 'feature' }), '/key')
  }
  for (const value of ['yes', 'TRUE', '1', '']) {
    expectInvalid(await send({ key: 'f', kind: 'feature', default: value }), '/default')
  }
  for (const value of ['+1', '01', '1.0', '-0', '1e3', '', ' 1', '1000000000000000', 'true', 5]) {
    expectInvalid(await send({ key: 'l', kind: 'limit', default: value }), '/default')
  }
  expectStatus(await send({ key: 'l', kind: 'limit', default: '-999999999999999' }), 201)
  expectInvalid(await send({ key: 'k', kind: 'boolean' }), '/kind')
  expectInvalid(await send({ kind: 'feature', colour: 'red' }), '/key', '/colour')
})

test('a key is unique, and after its deletion it can be created again only with its former kind', async () => {
  const { api, app, define } = await given()
  const path = `${app}/entitlement-defs`
  const { id } = await define('export', 'feature')
  const again = (kind: string) => api.post(path, { body: { key: 'export', kind } })
  expectProblem(await again('feature'), 409, 'already_exists')
  expectStatus(await api.delete(`${path}/${id}`), 204)
  expectNotFound(await api.delete(`${path}/${id}`))
  expectNotFound(await api.get(`${path}/${id}`))
  expectProblem(await again('limit'), 409, 'already_exists')
  expectStatus(await again('feature'), 201)
})

test('deleting a definition deletes its plan values and does not change snapshots', async () => {
  const { api, app, define, plan, issue, detail } = await given()
  const { id } = await define('export', 'feature')
  await define('seats', 'limit', '3')
  const { id: planId } = await plan({ entitlements: [{ key: 'export', value: 'true' }] })
  const licence = await issue(planId)
  expectStatus(await api.delete(`${app}/entitlement-defs/${id}`), 204)
  expect((await api.get(`${app}/plans/${planId}`)).body).toMatchObject({ entitlements: [] })
  const snapshot = (value: string) => [
    { key: 'export', kind: 'feature', value },
    { key: 'seats', kind: 'limit', value: '3' },
  ]
  expect((await detail(licence.id)).entitlements).toEqual(snapshot('true'))
  await define('export', 'feature')
  expect((await detail((await issue(planId)).id)).entitlements).toEqual(snapshot('false'))
})

test('a plan is created with overrides of definitions', async () => {
  const { api, app, define } = await given()
  const [seats, exports] = [await define('seats', 'limit', '1'), await define('export', 'feature')]
  const create = (fields: object, at = app) =>
    api.post<Plan>(`${at}/plans`, { body: { name: 'Pro', ...fields } })
  const entitlements = [
    { key: 'seats', value: '5' },
    { key: 'export', value: 'true' },
  ]
  const { status, body } = await create({ code: 'pro', entitlements })
  expect(status).toBe(201)
  expect(body).toMatchObject({
    id: expect.stringMatching(/^pln_[0-9a-z]{26}$/) as string,
    name: 'Pro',
    code: 'pro',
    status: 'active',
    active_licences: 0,
  })
  const values = new Map(body.entitlements.map((each) => [each.entitlement_def_id, each.value]))
  expect([...values]).toHaveLength(2)
  expect([values.get(seats.id), values.get(exports.id)]).toEqual(['5', 'true'])
  expect((await api.get(`${app}/plans/${body.id}`)).body).toEqual(body)
  expectProblem(await create({ code: 'pro' }), 409, 'already_exists')
  expectStatus(await create({ code: 'pro' }, (await given()).app), 201)
  expect((await create({ code: 'free', entitlements: null })).body.entitlements).toEqual([])
})

test('a plan’s name, code and overrides are validated, and an invalid list is not applied in part', async () => {
  const { api, app, define, plan } = await given()
  await define('seats', 'limit')
  await define('export', 'feature')
  const send = (body: object) => api.post(`${app}/plans`, { body: { name: 'Pro', code: 'x', ...body } })
  for (const code of ['', '-a', '.a', 'a b', 'é', 'a'.repeat(65), 'a/b']) {
    expectInvalid(await send({ code }), '/code')
  }
  expectInvalid(await send({ price: 1 }), '/price')
  expectInvalid(await send({ entitlements: {} }), '/entitlements')
  const seats = { key: 'seats', value: '1' }
  for (const [entitlements, pointer] of [
    [[seats, { key: 'nope', value: '1' }], '/1/key'],
    [[seats, seats], '/1/key'],
    [[{ key: 'seats', value: 'true' }], '/0/value'],
    [[{ key: 'export', value: '1' }], '/0/value'],
    [[{ key: 'seats', value: 1 }], '/0/value'],
    [[{ key: 'seats' }], '/0/value'],
    [[{ ...seats, note: '' }], '/0/note'],
  ] as const) {
    expectInvalid(await send({ entitlements }), `/entitlements${pointer}`)
  }
  expect(await allRows(api, `${app}/plans`)).toEqual([])

  const before = await plan({ entitlements: [seats] })
  const body = { name: 'New', entitlements: [{ key: 'nope', value: '1' }] }
  expectInvalid(await api.patch(`${app}/plans/${before.id}`, { body }), '/entitlements/0/key')
  expect((await api.get(`${app}/plans/${before.id}`)).body).toEqual(before)
})

test('each of the five rules of a plan’s PATCH holds', async () => {
  const { api, app, define, plan, issue, detail } = await given()
  const [a, b, c] = [
    await define('a', 'limit', '1'),
    await define('b', 'limit', '2'),
    await define('c', 'feature'),
  ]
  const { id } = await plan({
    entitlements: [
      { key: 'a', value: '10' },
      { key: 'b', value: '20' },
    ],
  })
  const patch = async (body: object) => {
    const answer = await api.patch<Plan>(`${app}/plans/${id}`, { body })
    expect(answer.status).toBe(200)
    expect((await api.get(`${app}/plans/${id}`)).body).toEqual(answer.body)
    return Object.fromEntries(answer.body.entitlements.map((each) => [each.entitlement_def_id, each.value]))
  }
  const snapshot = async () => {
    const { entitlements } = await detail((await issue(id)).id)
    return Object.fromEntries(entitlements.map(({ key, value }) => [key, value]))
  }
  // 5: if entitlements are absent or null, they do not change.
  for (const body of [{ name: 'Renamed' }, { entitlements: null }, {}]) {
    expect(await patch(body)).toEqual({ [a.id]: '10', [b.id]: '20' })
  }
  // 1 and 2: the list is the complete set, and its values are applied.
  const entitlements = [
    { key: 'b', value: '21' },
    { key: 'c', value: 'true' },
  ]
  expect(await patch({ entitlements })).toEqual({ [b.id]: '21', [c.id]: 'true' })
  // 3: entitlements that it omits return to their defaults.
  expect(await snapshot()).toEqual({ a: '1', b: '21', c: 'true' })
  // 4: an empty list removes all overrides.
  expect(await patch({ entitlements: [] })).toEqual({})
  expect(await snapshot()).toEqual({ a: '1', b: '2', c: 'false' })
})

test('a plan’s code can be changed to an unused code, also on a retired plan', async () => {
  const { api, app, plan } = await given()
  const [one, two] = [await plan({ code: 'one' }), await plan({ code: 'two' })]
  const patch = ({ id }: Plan, body: object) => api.patch(`${app}/plans/${id}`, { body })
  expectProblem(await patch(two, { code: 'one' }), 409, 'already_exists')
  expectStatus(await patch(one, { code: 'one' }), 200)
  await api.post(`${app}/plans/${one.id}/archive`)
  const renamed = { code: 'uno', name: 'Uno' }
  expect((await patch(one, renamed)).body).toMatchObject({ ...renamed, status: 'retired' })
})

test('archiving suspends active licences and stops issuing, and licences are reactivated one at a time', async () => {
  const { api, app, plan, issue, verb, licences } = await given()
  const { id } = await plan()
  const at = `${app}/plans/${id}`
  const issued = await Promise.all(Array.from({ length: 5 }, () => issue(id)))
  await verb('suspend', issued[0]!.id)
  await verb('revoke', issued[1]!.id)
  expect((await api.get(at)).body).toMatchObject({ active_licences: 3 })

  const archived = { id, status: 'retired', suspended_licences: 3, active_licences: 0 }
  expect(await api.post(`${at}/archive`)).toMatchObject({ status: 200, body: archived })
  const conflict = expectProblem(await api.post(`${at}/archive`), 409, 'conflict')
  expect(conflict).toMatchObject({ current: 'retired', allowed: ['restore'] })
  const rows = (await licences()).map(({ status, status_reason: reason }) => `${status} ${reason}`)
  const suspended = Array<string>(3).fill('suspended plan_archived')
  expect(rows.toSorted()).toEqual(['revoked null', 'suspended manual', ...suspended])
  const another = await api.post(`${app}/licences`, {
    headers: { 'idempotency-key': 'k' },
    body: { external_ref: 'c', plan_id: id },
  })
  for (const refused of [another, await verb('reactivate', issued[2]!.id)]) {
    expect(expectProblem(refused, 409, 'plan_archived').detail).toContain(id)
  }

  const restored = { status: 'active', active_licences: 0 }
  expect(await api.post(`${at}/restore`)).toMatchObject({ status: 200, body: restored })
  const again = expectProblem(await api.post(`${at}/restore`), 409, 'conflict')
  expect(again).toMatchObject({ current: 'active', allowed: ['archive'] })
  const active = { status: 'active', status_reason: null }
  expect((await verb('reactivate', issued[2]!.id)).body).toMatchObject(active)
  expect((await api.get(at)).body).toMatchObject({ active_licences: 1 })
})

test('an issue that races an archive fails or is suspended with the rest', async () => {
  const { api, app, plan, licences } = await given()
  const { id } = await plan()
  const racing = Array.from({ length: 30 }, (_, index) =>
    api.post<Licence & { code?: string }>(`${app}/licences`, {
      headers: { 'idempotency-key': `race-${index}` },
      body: { external_ref: `c-${index}`, plan_id: id },
    }),
  )
  const archived = await api.post<{ suspended_licences: number }>(`${app}/plans/${id}/archive`)
  const answers = await Promise.all(racing)
  const issued = answers.filter(({ status }) => status === 201)
  for (const answer of answers) {
    if (!issued.includes(answer)) expectProblem(answer, 409, 'plan_archived')
  }
  const rows = await licences(`?plan=${id}`)
  expect(rows).toHaveLength(issued.length)
  expect(rows.filter(({ status }) => status !== 'suspended')).toEqual([])
  expect(archived.body.suspended_licences).toBe(rows.length)
})

test('plans are listed newest first and by status', async () => {
  const { api, app, plan } = await given()
  const [first, second, third] = [await plan(), await plan(), await plan()].map(({ id }) => id)
  await api.post(`${app}/plans/${second}/archive`)
  for (const [query, ids] of [
    ['', [third, second, first]],
    ['?status=retired', [second]],
    ['?status=active', [third, first]],
  ] as const) {
    expect((await allRows<Plan>(api, `${app}/plans${query}`, 1)).map(({ id }) => id)).toEqual(ids)
  }
  expectInvalid(await api.get(`${app}/plans?status=gone`), '/status')
})

test('a plan and a definition are found only under their own application', async () => {
  const [mine, other] = [await given(), await given()]
  const [{ id: planId }, { id: entId }] = [await mine.plan(), await mine.define('x', 'feature')]
  const { api } = stack
  expectNotFound(await api.get(`${other.app}/plans/${planId}`))
  expectNotFound(await api.patch(`${other.app}/plans/${planId}`, { body: {} }))
  expectNotFound(await api.post(`${other.app}/plans/${planId}/archive`))
  expectNotFound(await api.get(`${other.app}/entitlement-defs/${entId}`))
  expectNotFound(await api.delete(`${other.app}/entitlement-defs/${entId}`))
})
