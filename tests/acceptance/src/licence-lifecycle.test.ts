import { expect, test } from 'vitest'
import {
  allRows,
  expectInvalid,
  expectNotFound,
  expectProblem,
  expectStatus,
  givenStack,
  givenVendor,
  isoTime,
  unknownId,
} from './vendor.ts'

const stack = await givenStack()
const { api, app, plan, issue, verb, detail, history } = await givenVendor(stack)
const { id: planId } = await plan()

const verbs = ['suspend', 'reactivate', 'revoke', 'retire'] as const
/** The status after a verb, by the status before it; null: it is refused. */
const results = {
  active: { suspend: 'suspended', reactivate: null, revoke: 'revoked', retire: 'retired' },
  suspended: { suspend: null, reactivate: 'active', revoke: 'revoked', retire: 'retired' },
  revoked: { suspend: null, reactivate: null, revoke: 'revoked', retire: 'retired' },
  retired: { suspend: null, reactivate: null, revoke: null, retire: 'retired' },
} as const
const pathTo = { active: null, suspended: 'suspend', revoked: 'revoke', retired: 'retire' } as const
const statuses = ['active', 'suspended', 'revoked', 'retired'] as const

test.each(statuses.flatMap((from) => verbs.map((name) => [from, name] as const)))(
  '%s: %s',
  async (from, name) => {
    const licence = await issue(planId)
    const { id } = licence
    if (pathTo[from]) await verb(pathTo[from], id)
    const before = await detail(id)
    const answer = await verb(name, id)
    const after = await detail(id)
    const to = results[from][name]
    if (to === null) {
      const problem = expectProblem(answer, 409, 'conflict')
      expect(problem.current).toBe(from)
      const allowed = verbs.filter((verb) => ![null, from].includes(results[from][verb]))
      expect(problem.allowed?.toSorted()).toEqual(allowed.toSorted())
      expect(problem.detail).toContain(id)
      expect(after).toEqual(before)
      return
    }
    const reason = to === 'suspended' ? 'manual' : null
    expect(answer).toMatchObject({ status: 200, body: { id, status: to, status_reason: reason } })
    expect(Object.keys(answer.body).toSorted()).toEqual(Object.keys(licence).toSorted())
    if (to === from) expect(after).toEqual(before)
  },
)

test('reactivate is not allowed for a suspended licence on a retired plan', async () => {
  const retired = await plan()
  const { id } = await issue(retired.id)
  await api.post(`${app}/plans/${retired.id}/archive`)
  const problem = expectProblem(await verb('suspend', id), 409, 'conflict')
  expect(problem.allowed?.toSorted()).toEqual(['retire', 'revoke'])
})

test('of concurrent verbs one succeeds, and the errors of the others name the new status', async () => {
  const { id } = await issue(planId)
  const answers = await Promise.all(Array.from({ length: 20 }, () => verb('suspend', id)))
  const refused = answers.filter(({ status }) => status !== 200)
  expect(refused).toHaveLength(19)
  for (const answer of refused) expect(expectProblem(answer, 409, 'conflict').current).toBe('suspended')
  expect((await history(id)).map(({ type }) => type)).toEqual(['suspended', 'issued'])
})

test('the history has each change with its actor, newest first, page by page', async () => {
  const { id } = await issue(planId)
  for (const name of ['suspend', 'reactivate', 'suspend', 'revoke', 'revoke', 'retire', 'retire'])
    await verb(name, id)
  const rows = await allRows<Record<string, string | null>>(api, `/v1/licences/${id}/history`, 2)
  expect(rows.map(({ type, from, to }) => [type, from, to])).toEqual([
    ['retired', 'revoked', 'retired'],
    ['revoked', 'suspended', 'revoked'],
    ['suspended', 'active', 'suspended'],
    ['reactivated', 'suspended', 'active'],
    ['suspended', 'active', 'suspended'],
    ['issued', null, 'active'],
  ])
  for (const row of rows) {
    expect(row).toMatchObject({
      actor: expect.stringMatching(/^key_/) as string,
      at: expect.stringMatching(isoTime) as string,
    })
    expect(row).toHaveProperty('cause')
  }
})

test('every call for a missing licence is 404', async () => {
  for (const id of [unknownId('lic'), 'nonsense']) {
    for (const name of verbs) expectNotFound(await verb(name, id))
    for (const path of ['', '/history', '/activations'])
      expectNotFound(await api.get(`/v1/licences/${id}${path}`))
  }
})

test('a verb accepts no body or an empty object, and refuses any other body', async () => {
  const { id } = await issue(planId)
  const path = `/v1/licences/${id}/suspend`
  expectInvalid(await api.post(path, { body: { reason: 'x' } }), '/reason')
  expectProblem(await api.post(path, { body: '{' }), 400, 'bad_request')
  const plain = { body: 'x', headers: { 'content-type': 'text/plain' } }
  expectProblem(await api.post(path, plain), 415, 'unsupported_media_type')
  expectStatus(await api.post(path, { body: {} }), 200)
  const headers = { 'content-type': 'application/json' }
  expectStatus(await api.post(`/v1/licences/${id}/reactivate`, { headers }), 200)
})
