import { sharedStack } from '@licensing/test-support/shared-stack'
import type { Stack } from '@licensing/test-support/stack-shape'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { allRows, expectInvalid, expectProblem, givenVendor } from './vendor.ts'
import type { Licence, Page, Plan } from './vendor.ts'

let stack: Stack

beforeAll(async () => {
  stack = await sharedStack()
})
afterAll(() => stack[Symbol.asyncDispose]())

test('a definition is created with defaults, read, changed and listed', async () => {
  const { api, app } = await givenVendor(stack)
  const feature = await api.post<{ id: string }>(`${app}/entitlement-defs`, {
    body: { key: 'export', kind: 'feature' },
  })
  expect(feature.status).toBe(201)
  expect(feature.body).toMatchObject({
    id: expect.stringMatching(/^ent_[0-9a-z]{26}$/),
    key: 'export',
    kind: 'feature',
    display_name: 'export',
    default: 'false',
  })
  const limit = await api.post<{ id: string }>(`${app}/entitlement-defs`, {
    body: { key: 'seats', kind: 'limit', display_name: null, default: null },
  })
  expect(limit.body).toMatchObject({ display_name: 'seats', default: '0' })
  const one = `${app}/entitlement-defs/${limit.body.id}`
  expect((await api.patch(one, { body: { default: '-12' } })).body).toMatchObject({
    default: '-12',
    display_name: 'seats',
  })
  expect((await api.patch(one, { body: { display_name: 'Seats' } })).body).toMatchObject({
    default: '-12',
    display_name: 'Seats',
  })
  expect((await api.patch(one, { body: {} })).status).toBe(200)
  expectInvalid(await api.patch(one, { body: { key: 'chairs' } }), '/key')
  expectInvalid(await api.patch(one, { body: { kind: 'feature' } }), '/kind')
  expectInvalid(await api.patch(one, { body: { default: 'true' } }), '/default')
  expect((await api.get(one)).body).toMatchObject({ key: 'seats', default: '-12', display_name: 'Seats' })
  const keys = (await allRows<{ key: string }>(api, `${app}/entitlement-defs`, 1)).map(({ key }) => key)
  expect(keys).toEqual(['seats', 'export'])
})

test('a definition’s key, kind and default are validated', async () => {
  const { api, app } = await givenVendor(stack)
  const send = (body: unknown) => api.post(`${app}/entitlement-defs`, { body })
  for (const key of ['Export', '1st', '_x', 'a-b', '', 'a'.repeat(65), 'é', 'a\n']) {
    expectInvalid(await send({ key, kind: 'feature' }), '/key')
  }
  expect((await send({ key: 'a'.repeat(64), kind: 'feature' })).status).toBe(201)
  for (const value of ['yes', 'TRUE', '1', ''])
    expectInvalid(await send({ key: 'f', kind: 'feature', default: value }), '/default')
  for (const value of ['+1', '01', '1.0', '-0', '1e3', '', ' 1', '1000000000000000', 'true']) {
    expectInvalid(await send({ key: 'l', kind: 'limit', default: value }), '/default')
  }
  expectInvalid(await send({ key: 'l', kind: 'limit', default: 5 }), '/default')
  expect((await send({ key: 'l', kind: 'limit', default: '-999999999999999' })).status).toBe(201)
  expectInvalid(await send({ key: 'k', kind: 'boolean' }), '/kind')
  expectInvalid(await send({ kind: 'feature', colour: 'red' }), '/key', '/colour')
  expectInvalid(await send({ key: 'k', kind: 'feature', display_name: 'a\0b' }), '/display_name')
  expectInvalid(await send('{"key":"k","kind":"feature","display_name":"\\ud800"}'), '/display_name')
})

test('a key is unique, and after its deletion it can be created again only with its former kind', async () => {
  const { api, app, define } = await givenVendor(stack)
  const { id } = await define('export', 'feature')
  expectProblem(
    await api.post(`${app}/entitlement-defs`, { body: { key: 'export', kind: 'feature' } }),
    409,
    'already_exists',
  )
  expect((await api.delete(`${app}/entitlement-defs/${id}`)).status).toBe(204)
  expectProblem(await api.delete(`${app}/entitlement-defs/${id}`), 404, 'not_found')
  expectProblem(await api.get(`${app}/entitlement-defs/${id}`), 404, 'not_found')
  expectProblem(
    await api.post(`${app}/entitlement-defs`, { body: { key: 'export', kind: 'limit' } }),
    409,
    'already_exists',
  )
  expect((await define('export', 'feature')).id).not.toBe(id)
})

test('deleting a definition deletes its plan values and does not change snapshots', async () => {
  const { api, app, define, plan, issue } = await givenVendor(stack)
  const { id } = await define('export', 'feature')
  await define('seats', 'limit', '3')
  const { id: planId } = await plan({ entitlements: [{ key: 'export', value: 'true' }] })
  const licence = await issue(planId)
  expect((await api.delete(`${app}/entitlement-defs/${id}`)).status).toBe(204)
  expect((await api.get(`${app}/plans/${planId}`)).body).toMatchObject({ entitlements: [] })
  const entitlements = async (licenceId: string) =>
    (await api.get(`/v1/licences/${licenceId}`)).body['entitlements']
  expect(await entitlements(licence.id)).toEqual([
    { key: 'export', kind: 'feature', value: 'true' },
    { key: 'seats', kind: 'limit', value: '3' },
  ])
  await define('export', 'feature')
  expect(await entitlements((await issue(planId)).id)).toEqual([
    { key: 'export', kind: 'feature', value: 'false' },
    { key: 'seats', kind: 'limit', value: '3' },
  ])
})

test('a plan is created with overrides of definitions', async () => {
  const { api, app, define } = await givenVendor(stack)
  const [seats, exports] = [await define('seats', 'limit', '1'), await define('export', 'feature')]
  const made = await api.post<Plan>(`${app}/plans`, {
    body: {
      name: 'Pro',
      code: 'pro',
      entitlements: [
        { key: 'seats', value: '5' },
        { key: 'export', value: 'true' },
      ],
    },
  })
  expect(made.status).toBe(201)
  expect(made.body).toMatchObject({ name: 'Pro', code: 'pro', status: 'active', active_licences: 0 })
  expect(made.body.id).toMatch(/^pln_[0-9a-z]{26}$/)
  expect(new Set(made.body.entitlements)).toEqual(
    new Set([
      { entitlement_def_id: seats.id, value: '5' },
      { entitlement_def_id: exports.id, value: 'true' },
    ]),
  )
  expect((await api.get(`${app}/plans/${made.body.id}`)).body).toEqual(made.body)
  expectProblem(await api.post(`${app}/plans`, { body: { name: 'x', code: 'pro' } }), 409, 'already_exists')
  expect(
    (await api.post((await givenVendor(stack)).app + '/plans', { body: { name: 'x', code: 'pro' } })).status,
  ).toBe(201)
  const bare = await api.post<Plan>(`${app}/plans`, {
    body: { name: 'Free', code: 'free', entitlements: null },
  })
  expect(bare.body.entitlements).toEqual([])
})

test('a plan’s name, code and overrides are validated, and an invalid list is not applied in part', async () => {
  const { api, app, define, plan } = await givenVendor(stack)
  await define('seats', 'limit')
  await define('export', 'feature')
  const send = (body: object) => api.post(`${app}/plans`, { body: { name: 'Pro', code: 'x', ...body } })
  for (const code of ['', '-a', '.a', 'a b', 'é', 'a'.repeat(65), 'a/b'])
    expectInvalid(await send({ code }), '/code')
  expectInvalid(await send({ name: '' }), '/name')
  expectInvalid(await send({ name: 'x'.repeat(201) }), '/name')
  expectInvalid(await send({ price: 1 }), '/price')
  expectInvalid(await send({ entitlements: {} }), '/entitlements')
  const list = (...entitlements: unknown[]) => ({ entitlements })
  expectInvalid(
    await send(list({ key: 'seats', value: '1' }, { key: 'nope', value: '1' })),
    '/entitlements/1/key',
  )
  expectInvalid(
    await send(list({ key: 'seats', value: '1' }, { key: 'seats', value: '1' })),
    '/entitlements/1/key',
  )
  expectInvalid(await send(list({ key: 'seats', value: 'true' })), '/entitlements/0/value')
  expectInvalid(await send(list({ key: 'export', value: '1' })), '/entitlements/0/value')
  expectInvalid(await send(list({ key: 'seats', value: 1 })), '/entitlements/0/value')
  expectInvalid(await send(list({ key: 'seats' })), '/entitlements/0/value')
  expectInvalid(await send(list({ key: 'seats', value: '1', note: '' })), '/entitlements/0/note')
  expect((await api.get<Page<Plan>>(`${app}/plans`)).body.data).toEqual([])

  const { id } = await plan(list({ key: 'seats', value: '7' }))
  const before = (await api.get(`${app}/plans/${id}`)).body
  expectInvalid(
    await api.patch(`${app}/plans/${id}`, { body: { name: 'New', ...list({ key: 'nope', value: '1' }) } }),
    '/entitlements/0/key',
  )
  expect((await api.get(`${app}/plans/${id}`)).body).toEqual(before)
})

test('each of the five rules of a plan’s PATCH holds', async () => {
  const { api, app, define, plan, issue } = await givenVendor(stack)
  const ids = {
    a: (await define('a', 'limit', '1')).id,
    b: (await define('b', 'limit', '2')).id,
    c: (await define('c', 'feature')).id,
  }
  const { id } = await plan({
    entitlements: [
      { key: 'a', value: '10' },
      { key: 'b', value: '20' },
    ],
  })
  const patch = async (body: object) => {
    const answer = await api.patch<Plan>(`${app}/plans/${id}`, { body })
    expect(answer.status).toBe(200)
    const read = await api.get<Plan>(`${app}/plans/${id}`)
    expect(read.body).toEqual(answer.body)
    return Object.fromEntries(answer.body.entitlements.map((each) => [each.entitlement_def_id, each.value]))
  }
  const snapshot = async () => {
    const detail = await api.get<{ entitlements: { key: string; value: string }[] }>(
      `/v1/licences/${(await issue(id)).id}`,
    )
    return Object.fromEntries(detail.body.entitlements.map(({ key, value }) => [key, value]))
  }
  // 5: if entitlements are absent or null, they do not change.
  expect(await patch({ name: 'Renamed' })).toEqual({ [ids.a]: '10', [ids.b]: '20' })
  expect(await patch({ entitlements: null })).toEqual({ [ids.a]: '10', [ids.b]: '20' })
  expect(await patch({})).toEqual({ [ids.a]: '10', [ids.b]: '20' })
  // 1 and 2: the list is the complete set, and its values are applied.
  expect(
    await patch({
      entitlements: [
        { key: 'b', value: '21' },
        { key: 'c', value: 'true' },
      ],
    }),
  ).toEqual({ [ids.b]: '21', [ids.c]: 'true' })
  // 3: entitlements that it omits return to their defaults.
  expect(await snapshot()).toEqual({ a: '1', b: '21', c: 'true' })
  // 4: an empty list removes all overrides.
  expect(await patch({ entitlements: [] })).toEqual({})
  expect(await snapshot()).toEqual({ a: '1', b: '2', c: 'false' })
})

test('a plan’s code can be changed to an unused code, also on a retired plan', async () => {
  const { api, app, plan } = await givenVendor(stack)
  const [one, two] = [await plan({ code: 'one' }), await plan({ code: 'two' })]
  expectProblem(await api.patch(`${app}/plans/${two.id}`, { body: { code: 'one' } }), 409, 'already_exists')
  expect((await api.patch(`${app}/plans/${one.id}`, { body: { code: 'one' } })).status).toBe(200)
  await api.post(`${app}/plans/${one.id}/archive`)
  expect(
    (await api.patch(`${app}/plans/${one.id}`, { body: { code: 'uno', name: 'Uno' } })).body,
  ).toMatchObject({
    code: 'uno',
    name: 'Uno',
    status: 'retired',
  })
})

test('archiving suspends active licences and stops issuing, and licences are reactivated one at a time', async () => {
  const { api, app, plan, issue, verb } = await givenVendor(stack)
  const { id } = await plan()
  const licences = await Promise.all(Array.from({ length: 5 }, () => issue(id)))
  await verb('suspend', licences[0]!.id)
  await verb('revoke', licences[1]!.id)
  expect((await api.get(`${app}/plans/${id}`)).body).toMatchObject({ active_licences: 3 })

  const archived = await api.post<Plan & { suspended_licences: number }>(`${app}/plans/${id}/archive`)
  expect(archived.status).toBe(200)
  expect(archived.body).toMatchObject({ id, status: 'retired', suspended_licences: 3, active_licences: 0 })
  expect(expectProblem(await api.post(`${app}/plans/${id}/archive`), 409, 'conflict')).toMatchObject({
    current: 'retired',
    allowed: ['restore'],
  })
  const statuses = async () =>
    (await allRows<Licence>(api, `${app}/licences`))
      .map(({ status, status_reason: reason }) => `${status} ${reason}`)
      .toSorted()
  expect(await statuses()).toEqual([
    'revoked null',
    'suspended manual',
    'suspended plan_archived',
    'suspended plan_archived',
    'suspended plan_archived',
  ])
  const issued = await api.post(`${app}/licences`, {
    headers: { 'idempotency-key': 'k' },
    body: { external_ref: 'c', plan_id: id },
  })
  expect(expectProblem(issued, 409, 'plan_archived').detail).toContain(id)
  const refused = expectProblem(await verb('reactivate', licences[2]!.id), 409, 'plan_archived')
  expect(refused.detail).toContain(id)

  const restored = await api.post(`${app}/plans/${id}/restore`)
  expect(restored.status).toBe(200)
  expect(restored.body).toMatchObject({ status: 'active', active_licences: 0 })
  expect(expectProblem(await api.post(`${app}/plans/${id}/restore`), 409, 'conflict')).toMatchObject({
    current: 'active',
    allowed: ['archive'],
  })
  expect((await verb('reactivate', licences[2]!.id)).body).toMatchObject({
    status: 'active',
    status_reason: null,
  })
  expect((await api.get(`${app}/plans/${id}`)).body).toMatchObject({ active_licences: 1 })
})

test('an issue that races an archive fails or is suspended with the rest', async () => {
  const { api, app, plan } = await givenVendor(stack)
  const { id } = await plan()
  const issue = (index: number) =>
    api.post<Licence>(`${app}/licences`, {
      headers: { 'idempotency-key': `race-${index}` },
      body: { external_ref: `c-${index}`, plan_id: id },
    })
  const racing = Array.from({ length: 30 }, (_, index) => issue(index))
  const archived = await api.post<{ suspended_licences: number }>(`${app}/plans/${id}/archive`)
  const answers = await Promise.all(racing)
  for (const { status, body } of answers) {
    expect([201, 409]).toContain(status)
    expect(status === 201 || (body as unknown as { code: string }).code === 'plan_archived').toBe(true)
  }
  const rows = await allRows<Licence>(api, `${app}/licences?plan=${id}`)
  expect(rows).toHaveLength(answers.filter(({ status }) => status === 201).length)
  expect(rows.filter(({ status }) => status !== 'suspended')).toEqual([])
  expect(archived.body.suspended_licences).toBe(rows.length)
})

test('plans are listed newest first and by status', async () => {
  const { api, app, plan } = await givenVendor(stack)
  const plans = [await plan(), await plan(), await plan()]
  await api.post(`${app}/plans/${plans[1]!.id}/archive`)
  const ids = async (query: string) =>
    (await allRows<Plan>(api, `${app}/plans${query}`, 1)).map(({ id }) => id)
  expect(await ids('')).toEqual(plans.map(({ id }) => id).toReversed())
  expect(await ids('?status=retired')).toEqual([plans[1]!.id])
  expect(await ids('?status=active')).toEqual([plans[2]!.id, plans[0]!.id])
  expectInvalid(await api.get(`${app}/plans?status=gone`), '/status')
})

test('a plan and a definition are found only under their own application', async () => {
  const [mine, other] = [await givenVendor(stack), await givenVendor(stack)]
  const [{ id: planId }, { id: entId }] = [await mine.plan(), await mine.define('x', 'feature')]
  const { api } = stack
  for (const answer of [
    await api.get(`${other.app}/plans/${planId}`),
    await api.patch(`${other.app}/plans/${planId}`, { body: {} }),
    await api.post(`${other.app}/plans/${planId}/archive`),
    await api.get(`${other.app}/entitlement-defs/${entId}`),
    await api.delete(`${other.app}/entitlement-defs/${entId}`),
    await api.get('/v1/apps/app_01k9zj3v8qe5ktw2m4x6r7n8ab/plans'),
  ]) {
    expectProblem(answer, 404, 'not_found')
  }
})
