import { eventually } from '@licensing/test-support/poll'
import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { expectStatus, givenStudio } from './section-14.ts'
import type { FullLicence, Studio } from './section-14.ts'
import { startMarket } from './shop.ts'
import type { Market } from './shop.ts'
import { expectProblem } from './vendor.ts'

let market: Market
let studio: Studio
let planId: string
beforeAll(async () => {
  market = await startMarket()
  studio = await givenStudio(market)
  planId = (await studio.plan()).id
})
afterAll(() => market[Symbol.asyncDispose]())

const rotate = (licence: { id: string }, idempotencyKey: string = randomUUID()) =>
  studio.api.post<FullLicence>(`/v1/licences/${licence.id}/rotate-key`, {
    headers: { 'idempotency-key': idempotencyKey },
  })

test('a new key replaces the old key, which is unknown after at most two seconds, and activations stay', async () => {
  const { issue, activate, refresh, detail, history, product } = studio
  const licence = await issue(planId)
  const activated = await activate(licence)
  const rotated = await rotate(licence)
  const { key } = rotated.body
  expectStatus(rotated, 200)
  expect(rotated.body).toEqual({ ...licence, key, updated_at: rotated.body.updated_at })
  expect(key).not.toBe(licence.key)
  await eventually(async () => expectProblem(await activate(licence), 404, 'not_found'), { timeoutMs: 2_000 })
  expectStatus(await activate(rotated.body), 201)
  expectStatus(await refresh(activated), 200)
  const { body } = activated
  const home = `/v1/activations/${body.activation_id}/call-home`
  expectStatus(await product(home, { product_version: '1', host: 'a.example.com' }, body.token), 204)
  expect((await detail(licence.id)).key).toBe(key)
  expect((await history(licence.id)).map(({ type }) => type)).toEqual(['key_rotated', 'issued'])
})

test('a repeat with the same idempotency key answers the same licence key, even after another rotation', async () => {
  const { issue, detail, history } = studio
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

test('a revoked or retired licence keeps its key', async () => {
  for (const verb of ['revoke', 'retire']) {
    const licence = await studio.issue(planId)
    await studio.verb(verb, licence.id)
    expectProblem(await rotate(licence), 409, 'conflict')
    expect((await studio.detail(licence.id)).key).toBe(licence.key)
  }
})
