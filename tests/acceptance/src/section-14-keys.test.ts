import { eventually } from '@licensing/test-support/poll'
import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { expectNotFound, expectProblem, expectStatus, givenStack, givenVendor } from './vendor.ts'
import type { Licence } from './vendor.ts'

const { api, plan, issue, activate, callHome, refresh, detail, history, verb } = await givenVendor(
  await givenStack(),
)
const { id: planId } = await plan()

const rotate = (licence: { id: string }, idempotencyKey: string = randomUUID()) =>
  api.post<Licence>(`/v1/licences/${licence.id}/rotate-key`, {
    headers: { 'idempotency-key': idempotencyKey },
  })

test('a new key replaces the old key, which is unknown after at most two seconds, and activations stay', async () => {
  const licence = await issue(planId)
  const { body: grant } = await activate(licence)
  const rotated = await rotate(licence)
  const { key, updated_at } = rotated.body
  expect(rotated).toMatchObject({ status: 200, body: { ...licence, key, updated_at } })
  expect(key).not.toBe(licence.key)
  await eventually(async () => expectNotFound(await activate(licence)), { timeoutMs: 2_000 })
  expectStatus(await activate({ key }), 201)
  expectStatus(await refresh(grant), 200)
  expectStatus(await callHome(grant), 204)
  expect((await detail(licence.id)).key).toBe(key)
  expect((await history(licence.id)).map(({ type }) => type)).toEqual(['key_rotated', 'issued'])
})

test('a repeat with the same idempotency key answers the same licence key, even after another rotation', async () => {
  const licence = await issue(planId)
  const first = await rotate(licence, 'one')
  const second = await rotate(licence, 'two')
  expect(second.body.key).not.toBe(first.body.key)
  const again = await rotate(licence, 'one')
  expect(again.body.key).toBe(first.body.key)
  expect(again.headers.get('idempotent-replayed')).toBe('true')
  expect((await detail(licence.id)).key).toBe(second.body.key)
  expect(await history(licence.id)).toHaveLength(3)
  const answers = await Promise.all(Array.from({ length: 10 }, () => rotate(licence, 'at once')))
  expect(new Set(answers.map(({ body }) => body.key)).size).toBe(1)
})

test.each(['revoke', 'retire'])('after %s a licence keeps its key', async (end) => {
  const licence = await issue(planId)
  await verb(end, licence.id)
  expectProblem(await rotate(licence), 409, 'conflict')
  expect((await detail(licence.id)).key).toBe(licence.key)
})
