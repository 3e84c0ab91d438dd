import { timestampDate, timestampFromDate } from '@bufbuild/protobuf/wkt'
import { expect, test } from 'vitest'
import { forFile, startHarness } from '../../test/harness.ts'
import {
  actor,
  events,
  givenLicence,
  givenPlan,
  refusal,
  itemOf,
  update as change,
  verbOn,
  licenceOf,
  list,
  changesOf,
} from '../../test/makers.ts'

const harness = await forFile(startHarness)

type Metadata = Record<string, string>

const entries = (count: number): Metadata =>
  Object.fromEntries(Array.from({ length: count }, (_, at) => [`n${at}`, 'v']))
const given = async (metadata?: Metadata) =>
  givenLicence(harness, { planId: (await givenPlan(harness)).id, ...(metadata && { metadata }) })
const read = (licence: { id: string }) => licenceOf(harness, licence)

/** `null` removes the entry. */
function update(licence: { id: string }, metadata: Record<string, string | null>, clear = false) {
  const set = Object.entries(metadata).flatMap(([name, value]) => (value === null ? [] : [[name, value]]))
  const remove = Object.keys(metadata).filter((name) => metadata[name] === null)
  return change(harness, licence, { metadata: { set: Object.fromEntries(set) as Metadata, remove, clear } })
}

const invalid: [Metadata, string][] = [
  [entries(51), '/metadata'],
  [{ 'a b': 'v' }, '/metadata/a b'],
  [{ 'a/b': 'v' }, '/metadata/a~1b'],
  [{ n: 'v'.repeat(501) }, '/metadata/n'],
  [{ n: '\0' }, '/metadata/n'],
]

test('a licence is issued with metadata, and shows it in its answer, the list and the detail', async () => {
  const metadata = { b: 'ü "😀', a: '', 'A-z_0.9': 'x' }
  const licence = await given(metadata)
  expect(licence.metadata).toEqual(metadata)
  expect(await read(licence)).toEqual(licence)
  const page = await list(harness)
  expect(page.licences.find(({ id }) => id === licence.id)).toEqual(licence)
  const suspended = await harness.licensing.suspendLicence(verbOn(harness, licence))
  expect(suspended.metadata).toEqual(metadata)
  expect((await given()).metadata).toEqual({})
  expect(JSON.stringify(await events(harness, licence))).not.toContain('ü')
})

test.each(invalid)('issuing with %j is refused', async (metadata, pointer) => {
  const { code, errors } = await refusal(given(metadata))
  expect([code, errors[0]?.pointer]).toEqual(['validation_failed', pointer])
})

test('an item of an import with invalid metadata fails alone; others get metadata and the end of updates', async () => {
  const plan = await givenPlan(harness)
  const { accountId, applicationId } = harness
  const updatesUntil = timestampFromDate(new Date('2031-01-02T03:04:05.678Z'))
  const given = (legacyKey: string, metadata?: Metadata) =>
    itemOf({ legacyKey, planId: plan.id, ...(metadata && { metadata: { set: metadata }, updatesUntil }) })
  const items = [
    given('sound', { a: '1' }),
    given('plain'),
    ...invalid.map(([metadata], at) => given(`invalid-${at}`, metadata)),
  ]
  const request = { accountId, applicationId, actor, items }
  const rehearsed = await harness.licensing.importLicences({ ...request, dryRun: true })
  const imported = await harness.licensing.importLicences({ ...request, dryRun: false })
  for (const { items: results } of [rehearsed, imported]) {
    expect(results.map(({ result }) => result)).toEqual([
      'created',
      'created',
      ...invalid.map(() => 'failed'),
    ])
    for (const { error } of results.slice(2)) {
      expect(error).toMatchObject({ code: 'validation_failed', detail: expect.stringMatching(/^metadata/) })
    }
  }
  const [sound, plain] = await Promise.all(
    imported.items.slice(0, 2).map(({ licenceId }) => read({ id: licenceId! })),
  )
  expect([sound!.metadata, timestampDate(sound!.updatesUntil!)]).toEqual([
    { a: '1' },
    timestampDate(updatesUntil),
  ])
  expect([plain!.metadata, plain!.updatesUntil]).toEqual([{}, undefined])
  // Invalid metadata of an item that was imported before is ignored, like its other values.
  const again = [given('sound', { 'a b': 'v' })]
  const existing = await harness.licensing.importLicences({ ...request, items: again, dryRun: false })
  expect(existing.items[0]).toMatchObject({ result: 'existing', licenceId: sound!.id })
  expect((await read(sound!)).metadata).toEqual({ a: '1' })
})

test('a change keeps the other entries, and the history has all before and after it', async () => {
  const licence = await given({ b: '1', a: '1', gone: 'x' })
  const updated = await update(licence, { c: 'ü "', b: '2', gone: null, unknown: null })
  expect(updated.metadata).toEqual({ a: '1', b: '2', c: 'ü "' })
  const metadata = { from: { a: '1', b: '1', gone: 'x' }, to: { a: '1', b: '2', c: 'ü "' } }
  expect(await changesOf(harness, licence)).toEqual([{ actor, changes: { metadata } }])
  // The same values in another order change nothing.
  await update(licence, { c: 'ü "', a: '1' })
  await update(licence, { c: 'ü "', b: '2', a: '1' }, true)
  expect(await changesOf(harness, licence)).toHaveLength(1)
  expect((await update(licence, {}, true)).metadata).toEqual({})
  expect(await changesOf(harness, licence)).toHaveLength(2)
  expect(await events(harness, licence)).toEqual([])
})

test('a change that breaks a rule is refused, and nothing of the update is applied', async () => {
  const licence = await given(entries(50))
  const refused: [Record<string, string | null>, string][] = [
    ...invalid,
    [{ more: 'v' }, '/metadata'],
    [{ 'a b': null }, '/metadata/a b'],
  ]
  for (const [metadata, pointer] of refused) {
    const { code, errors } = await refusal(update(licence, metadata))
    expect([code, errors[0]?.pointer]).toEqual(['validation_failed', pointer])
  }
  expect(await changesOf(harness, licence)).toEqual([])
  expect(await read(licence)).toEqual(licence)
  const { metadata } = await update(licence, { n1: null, more: 'v' })
  expect(Object.keys(metadata)).toHaveLength(50)
})

test('metadata of a revoked licence cannot be changed; setting the same values is accepted', async () => {
  const licence = await given({ a: '1' })
  await harness.licensing.revokeLicence(verbOn(harness, licence))
  expect(await update(licence, { a: '1', b: null })).toMatchObject({ status: 'revoked' })
  expect(await refusal(update(licence, { a: '2' }))).toMatchObject({ code: 'conflict' })
})
