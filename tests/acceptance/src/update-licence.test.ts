import { sharedStack } from '@licensing/test-support/shared-stack'
import type { Stack } from '@licensing/test-support/stack-shape'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { expectInvalid, expectProblem, givenVendor } from './vendor.ts'
import type { Licence, Page, Vendor } from './vendor.ts'

let stack: Stack
let vendor: Vendor
let planId: string
beforeAll(async () => {
  stack = await sharedStack()
  vendor = await givenVendor(stack)
  planId = (await vendor.plan()).id
})
afterAll(() => stack[Symbol.asyncDispose]())

const patch = (licence: { id: string }, body: unknown) =>
  stack.api.patch<Licence>(`/v1/licences/${licence.id}`, { body })

interface Entry {
  type: string
  changes: Record<string, { from: unknown; to: unknown }> | null
}

test('a licence’s reference, restrictions and end can be changed, and the history has old and new values', async () => {
  const licence = await vendor.issue(planId, { external_ref: 'old', restrictions: { max_seats: 2 } })
  const changed = await patch(licence, {
    external_ref: 'new',
    restrictions: { domains: ['App.Example.com'], max_seats: null },
    expires_on: '2099-01-01T00:00:00+01:00',
  })
  expect(changed).toMatchObject({
    status: 200,
    body: {
      id: licence.id,
      key: licence.key,
      external_ref: 'new',
      restrictions: { domains: ['app.example.com'] },
      expires_on: '2098-12-31T23:00:00.000Z',
    },
  })
  const { body } = await stack.api.get<Page<Entry>>(`/v1/licences/${licence.id}/history`)
  expect(body.data[0]).toMatchObject({
    type: 'changed',
    changes: {
      external_ref: { from: 'old', to: 'new' },
      restrictions: { from: { max_seats: 2 }, to: { domains: ['app.example.com'] } },
      expires_on: { from: null, to: '2098-12-31T23:00:00.000Z' },
    },
  })
  expect(body.data[1]).toMatchObject({ type: 'issued', changes: null })

  const cleared = await patch(licence, { restrictions: null, expires_on: null })
  expect(cleared.body).toMatchObject({ restrictions: null, expires_on: null, external_ref: 'new' })
})

test('a PATCH without a change answers 200 and writes no history', async () => {
  const licence = await vendor.issue(planId)
  for (const body of [{}, { external_ref: licence.external_ref, restrictions: {}, expires_on: null }]) {
    expect(await patch(licence, body)).toMatchObject({
      status: 200,
      body: { updated_at: licence.updated_at },
    })
  }
  const { body } = await stack.api.get<Page<Entry>>(`/v1/licences/${licence.id}/history`)
  expect(body.data).toHaveLength(1)
})

test('a null reference, another field and a past end are 422; a revoked licence is 409', async () => {
  const licence = await vendor.issue(planId)
  expectInvalid(await patch(licence, { external_ref: null }), '/external_ref')
  expectInvalid(await patch(licence, { plan_id: planId }), '/plan_id')
  expectInvalid(await patch(licence, { expires_on: '2001-01-01T00:00:00Z' }), '/expires_on')
  await vendor.verb('revoke', licence.id)
  const refused = await patch(licence, { external_ref: 'x' })
  expectProblem(refused, 409, 'conflict')
  expect(refused.body).toMatchObject({ current: 'revoked', allowed: ['retire'] })
})
