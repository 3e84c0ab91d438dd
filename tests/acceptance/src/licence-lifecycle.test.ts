import { allowedIn, resultOf } from '@licensing/test-support/licence-rules'
import { sharedStack } from '@licensing/test-support/shared-stack'
import type { Stack } from '@licensing/test-support/stack-shape'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { allRows, expectInvalid, expectProblem, givenVendor, isoTime } from './vendor.ts'
import type { Licence, Vendor } from './vendor.ts'

let stack: Stack
let vendor: Vendor
let planId: string

beforeAll(async () => {
  stack = await sharedStack()
  vendor = await givenVendor(stack)
  planId = (await vendor.plan()).id
})
afterAll(() => stack[Symbol.asyncDispose]())

describe('lifecycle', () => {
  const verbs = ['suspend', 'reactivate', 'revoke', 'retire'] as const
  const pathTo = { active: null, suspended: 'suspend', revoked: 'revoke', retired: 'retire' } as const

  for (const from of ['active', 'suspended', 'revoked', 'retired'] as const) {
    test.each(verbs)(`${from}: %s`, async (verb) => {
      const { id } = await vendor.issue(planId)
      if (pathTo[from]) await vendor.verb(pathTo[from], id)
      const before = await stack.api.get<Licence>(`/v1/licences/${id}`)
      const answer = await vendor.verb(verb, id)
      const after = await stack.api.get<Licence>(`/v1/licences/${id}`)
      const position = { status: from, ...(from === 'suspended' && { reason: 'manual' }) }
      const result = resultOf(verb, position, 'active')
      if ('refused' in result) {
        const problem = expectProblem(answer, 409, result.refused)
        expect(problem.current).toBe(from)
        expect(problem.allowed?.toSorted()).toEqual(allowedIn(position, 'active').toSorted())
        expect(problem.detail).toContain(id)
        expect(after.body).toEqual(before.body)
        return
      }
      const { to, reason = null } = 'to' in result ? result : { to: from }
      expect(answer.status).toBe(200)
      expect(answer.body).toMatchObject({ id, status: to, status_reason: reason })
      expect(Object.keys(answer.body).toSorted()).toEqual(Object.keys(await vendor.issue(planId)).toSorted())
      if (to === from) expect(after.body).toEqual(before.body)
    })
  }

  test('reactivate is not allowed for a suspended licence on a retired plan', async () => {
    const plan = await vendor.plan()
    const { id } = await vendor.issue(plan.id)
    await stack.api.post(`${vendor.app}/plans/${plan.id}/archive`)
    const problem = expectProblem(await vendor.verb('suspend', id), 409, 'conflict')
    expect(problem.allowed?.toSorted()).toEqual(['retire', 'revoke'])
  })

  test('of concurrent verbs one succeeds, and the errors of the others name the new status', async () => {
    const { id } = await vendor.issue(planId)
    const answers = await Promise.all(Array.from({ length: 20 }, () => vendor.verb('suspend', id)))
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1)
    for (const answer of answers.filter(({ status }) => status !== 200)) {
      expect(expectProblem(answer, 409, 'conflict').current).toBe('suspended')
    }
    const history = await allRows<{ type: string }>(stack.api, `/v1/licences/${id}/history`)
    expect(history.map(({ type }) => type)).toEqual(['suspended', 'issued'])
  })

  test('the history has each change with its actor, newest first, page by page', async () => {
    const { id } = await vendor.issue(planId)
    for (const verb of ['suspend', 'reactivate', 'suspend', 'revoke', 'revoke', 'retire', 'retire'])
      await vendor.verb(verb, id)
    const rows = await allRows<Record<string, string | null>>(stack.api, `/v1/licences/${id}/history`, 2)
    expect(rows.map(({ type, from, to }) => [type, from, to])).toEqual([
      ['retired', 'revoked', 'retired'],
      ['revoked', 'suspended', 'revoked'],
      ['suspended', 'active', 'suspended'],
      ['reactivated', 'suspended', 'active'],
      ['suspended', 'active', 'suspended'],
      ['issued', null, 'active'],
    ])
    for (const row of rows) {
      expect(row['actor']).toMatch(/^key_/)
      expect(row['at']).toMatch(isoTime)
      expect(row).toHaveProperty('cause')
    }
  })

  test('every call for a missing licence is 404', async () => {
    for (const id of ['lic_01k9zj3v8qe5ktw2m4x6r7n8ab', 'nonsense']) {
      for (const verb of verbs) expectProblem(await vendor.verb(verb, id), 404, 'not_found')
      expectProblem(await stack.api.get(`/v1/licences/${id}`), 404, 'not_found')
      expectProblem(await stack.api.get(`/v1/licences/${id}/history`), 404, 'not_found')
    }
  })

  test('a verb accepts no body or an empty object, and refuses any other body', async () => {
    const { id } = await vendor.issue(planId)
    const path = `/v1/licences/${id}/suspend`
    expectInvalid(await stack.api.post(path, { body: { reason: 'x' } }), '/reason')
    expectProblem(await stack.api.post(path, { body: '{' }), 400, 'bad_request')
    expectProblem(
      await stack.api.post(path, { body: 'x', headers: { 'content-type': 'text/plain' } }),
      415,
      'unsupported_media_type',
    )
    expect((await stack.api.post(path, { body: {} })).status).toBe(200)
    expect(
      (
        await stack.api.post(`/v1/licences/${id}/reactivate`, {
          headers: { 'content-type': 'application/json' },
        })
      ).status,
    ).toBe(200)
  })
})
