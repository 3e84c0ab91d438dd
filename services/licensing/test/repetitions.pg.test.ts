import { create, toBinary } from '@bufbuild/protobuf'
import { keyed } from '@licensing/changes/testing/keyed'
import { closedSets } from '@licensing/proto/closed-sets'
import type { LicenceStatus, LicenceVerb } from '@licensing/proto/closed-sets'
import { ImportLicencesResponseSchema } from '@licensing/proto/licensing'
import type { Licence } from '@licensing/proto/licensing'
import { expect, test } from 'vitest'
import { forFile } from './harness.ts'
import type { Harness } from './harness.ts'
import {
  activeOn,
  actor,
  archive,
  events,
  givenLicence,
  givenLicenceIn,
  givenPlan,
  history,
  refusal,
  restore,
  itemOf,
  verbOn,
  detailOf,
  atOnce,
} from './makers.ts'
import { activateOffline } from './products.ts'
import { startReplicas } from './races.ts'

const { harness, either } = await forFile(startReplicas)

const replica = (at: number) => either(at).licensing
const path = (verb: string, licence: { id: string }) => `/v1/licences/${licence.id}/${verb}`

const before = {
  suspend: 'active',
  reactivate: 'suspended',
  revoke: 'active',
  retire: 'active',
} as const satisfies Record<LicenceVerb, LicenceStatus>

test.each(closedSets.licenceVerb)(
  '%s in 20 concurrent calls with one key happens once, and all get the same answer',
  async (verb) => {
    const licence = await givenLicenceIn(harness, before[verb])
    const earlier = await events(harness)
    const request = verbOn(harness, licence)
    const answers = await atOnce(20, (at) =>
      keyed(path(verb, licence), () => replica(at)[`${verb}Licence`](request)),
    )
    expect(answers.filter(({ replayed }) => !replayed)).toHaveLength(1)
    expect(new Set(answers.map(({ value }) => JSON.stringify(value, bigint))).size).toBe(1)
    expect(await events(harness)).toHaveLength(earlier.length + 1)
  },
)

type Action = (on: Harness, licence: Licence) => Promise<unknown>
type Effects = (licence: Licence) => Promise<unknown[]>

const otherActions: [string, Action, Effects][] = [
  [
    'offline-activations',
    (on, licence) => activateOffline(on, licence, { fingerprint: 'machine' }),
    async (licence) => (await detailOf(harness, licence)).activations,
  ],
  [
    'rotate-key',
    (on, licence) => on.licensing.rotateLicenceKey(verbOn(on, licence)),
    async (licence) => (await history(harness, licence)).slice(1),
  ],
]

test.each(otherActions)(
  '%s in 20 concurrent calls with one key happens once, and all get the same answer',
  async (action, call, effectsOn) => {
    const licence = await givenLicence(harness)
    const answers = await atOnce(20, (at) => keyed(path(action, licence), () => call(either(at), licence)))
    expect(answers.filter(({ replayed }) => !replayed)).toHaveLength(1)
    expect(new Set(answers.map(({ value }) => JSON.stringify(value, bigint))).size).toBe(1)
    expect(await effectsOn(licence)).toHaveLength(1)
  },
)

function bigint(_name: string, value: unknown): unknown {
  return typeof value === 'bigint' ? String(value) : value
}

test('a repeated verb gets the first answer and changes nothing, even if the licence has changed since', async () => {
  const plan = await givenPlan(harness)
  const licence = await givenLicence(harness, { planId: plan.id })
  const suspend = () =>
    keyed(path('suspend', licence), () => harness.licensing.suspendLicence(verbOn(harness, licence)))
  await suspend()
  await harness.licensing.reactivateLicence(verbOn(harness, licence))
  expect(await suspend()).toMatchObject({ replayed: true, value: { status: 'suspended', key: licence.key } })
  expect(await activeOn(harness, plan)).toBe(1n)
  expect(await history(harness, licence)).toHaveLength(3)
})

test('a refused verb stores no answer, and succeeds with the same key when it is allowed', async () => {
  const licence = await givenLicence(harness)
  const reactivate = () =>
    keyed(path('reactivate', licence), () => harness.licensing.reactivateLicence(verbOn(harness, licence)))
  expect(await refusal(reactivate())).toMatchObject({ code: 'conflict' })
  await harness.licensing.suspendLicence(verbOn(harness, licence))
  expect(await reactivate()).toMatchObject({ replayed: false, value: { status: 'active' } })
})

test('an API key of one application gets no answer about another’s licence, even if the idempotency key was used before', async () => {
  const licence = await givenLicence(harness)
  const suspend = (onlyApplicationId?: string, body = '') =>
    keyed(
      path('suspend', licence),
      () => harness.licensing.suspendLicence({ ...verbOn(harness, licence), onlyApplicationId }),
      { body },
    )
  await suspend()
  expect(await refusal(suspend('app_another'))).toMatchObject({ code: 'not_found' })
  expect(await refusal(suspend('app_another', 'another body'))).toMatchObject({ code: 'not_found' })
  expect(await suspend(harness.applicationId)).toMatchObject({ replayed: true })
})

const importing = (
  items: [legacyKey: string, planId: string][],
  { dryRun = false, at = 0, body = '' } = {},
) =>
  keyed(
    '/import',
    () =>
      replica(at).importLicences({
        accountId: harness.accountId,
        applicationId: harness.applicationId,
        actor,
        items: items.map(([legacyKey, planId]) => itemOf({ legacyKey, planId })),
        dryRun,
      }),
    { key: items[0]![0], body },
  )

test('a repeated import with its idempotency key is answered as created, also in 20 calls at once', async () => {
  const plan = await givenPlan(harness)
  const answers = await atOnce(20, (at) =>
    importing(
      [
        ['key-1', plan.id],
        ['key-2', 'pln_unknown'],
        ['key-1', plan.id],
      ],
      { at },
    ),
  )
  const results = answers.map(({ value }) => value.items.map(({ result }) => result))
  expect(new Set(results.map(String))).toEqual(new Set(['created,failed,existing']))
  expect(new Set(answers.map(({ value }) => JSON.stringify(value))).size).toBe(1)
  expect(answers.filter(({ replayed }) => !replayed)).toHaveLength(1)
  expect(await activeOn(harness, plan)).toBe(1n)
})

test('if a call ended after its batch was stored, the repetition is answered as created', async () => {
  const plan = await givenPlan(harness)
  const retired = await givenPlan(harness)
  await archive(harness, retired)
  const items: [string, string][] = [
    ['crash-1', plan.id],
    ['crash-2', retired.id],
    ['crash-3', plan.id],
  ]
  const first = await importing(items)
  expect(first.value.items.map(({ result }) => result)).toEqual(['created', 'failed', 'created'])
  // The stored answer after the first transaction: refusals are not known yet.
  const unfinished = toBinary(
    ImportLicencesResponseSchema,
    create(ImportLicencesResponseSchema, {
      items: first.value.items.map((item) => (item.result === 'created' ? item : {})),
    }),
  )
  await harness.sql`
    update idempotency_keys set is_finished = false, answer = ${Buffer.from(unfinished)}
    where key = 'crash-1'`
  await restore(harness, retired)
  const again = await importing(items)
  expect(again).toMatchObject({ replayed: true, value: { created: 3, failed: 0, existing: 0 } })
  expect(again.value.items[0]!.licenceId).toBe(first.value.items[0]!.licenceId)
  expect(again.value.items[2]!.licenceId).toBe(first.value.items[2]!.licenceId)
  expect(await importing(items)).toMatchObject({ replayed: true, value: again.value })
  expect(await activeOn(harness, plan)).toBe(2n)
})
