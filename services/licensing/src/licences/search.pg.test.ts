import { newId } from '@licensing/database/ids'
import { expect, test } from 'vitest'
import { givenActivation, callOf } from '../../test/products.ts'
import { forFile, startHarness } from '../../test/harness.ts'
import { givenLicence, givenPlan, importItems } from '../../test/makers.ts'

const harness = await forFile(startHarness)
const { id: planId } = await givenPlan(harness)

/** The results of a search, as `matched id`. */
async function search(query: string, ofSales: { licenceId: string; matched: string }[] = []) {
  const { accountId, applicationId } = harness
  const { found } = await harness.licensing.searchLicences({ accountId, applicationId, query, ofSales })
  return found.map(({ matched, licence }) => `${matched} ${licence!.id}`)
}

const given = (externalRef: string, fields: { domains?: string[] } = {}) =>
  givenLicence(harness, { planId, externalRef, ...fields })

async function imported(legacyKey: string, externalRef: string): Promise<string> {
  const { items } = await importItems(harness, [{ legacyKey, externalRef, planId }])
  return items[0]!.licenceId!
}

test('a licence is found by its exact id, key in any spelling, legacy key and activation', async () => {
  const licence = await given('exact')
  const legacy = await imported('OLD-17', 'from before')
  const { activationId } = await givenActivation(harness.products, licence)
  expect(await search(licence.id)).toEqual([`id ${licence.id}`])
  for (const key of [licence.key, licence.key.toLowerCase(), licence.key.replaceAll('-', '')]) {
    expect(await search(key)).toEqual([`key ${licence.id}`])
  }
  expect(await search('OLD-17')).toEqual([`legacy_key ${legacy}`])
  expect(await search(activationId)).toEqual([`activation_id ${licence.id}`])
  for (const other of [licence.id.slice(0, -1), licence.key.slice(0, 12), 'old-17', 'OLD-1', newId('act')]) {
    expect(await search(other)).toEqual([])
  }
})

test('a host finds the licences that run on it now or are restricted to it, by its full name in any letter case', async () => {
  const running = await given('runs')
  const restricted = await given('restricted', { domains: ['build.acme.example', '*.lab.example'] })
  const grant = await givenActivation(harness.products, running, { host: 'Build.acme.example' })
  await givenActivation(harness.products, running, { host: 'build.acme.example' })
  expect(await search('BUILD.acme.EXAMPLE')).toEqual([`host ${restricted.id}`, `host ${running.id}`])
  expect(await search('*.lab.example')).toEqual([`host ${restricted.id}`])
  for (const part of ['acme.example', 'build.acme', 'x.lab.example']) expect(await search(part)).toEqual([])
  const moved = await given('moved')
  const itsGrant = await givenActivation(harness.products, moved, { host: 'before.example' })
  await harness.products.recordCallHome(callOf(itsGrant, { host: 'after.example' }))
  expect(await search('before.example')).toEqual([])
  expect(await search('after.example')).toEqual([`host ${moved.id}`])
  await harness.products.deactivate(itsGrant)
  expect(await search('after.example')).toEqual([])
  await harness.products.deactivate(grant)
  expect(await search('build.acme.example')).toEqual([`host ${restricted.id}`, `host ${running.id}`])
})

test('a customer reference is found by its beginning, ignoring letter case in every alphabet; an exact match comes first', async () => {
  const [equal, longer, newest] = [
    await given('Müller'),
    await given('MÜLLER & Söhne'),
    await given('müllerei'),
  ]
  expect(await search('mÜLLER')).toEqual([
    `external_ref ${equal.id}`,
    `external_ref ${newest.id}`,
    `external_ref ${longer.id}`,
  ])
  expect(await search('müllere')).toEqual([`external_ref ${newest.id}`])
  expect(await search('üller')).toEqual([])
  // Only in lower case, a sigma at the end of a word is another letter.
  const greek = await given('Οδοσήμανση')
  expect(await search('ΟΔΟΣ')).toEqual([`external_ref ${greek.id}`])
  const beyond = await given('𐐀𐐁-1')
  expect(await search('𐐨𐐩')).toEqual([`external_ref ${beyond.id}`])
  const last = await given('zz\u{10FFFF}\u{10FFFF}end')
  expect(await search('zz\u{10FFFF}')).toEqual([`external_ref ${last.id}`])
  for (const wild of ['m%', 'm_ller', 'M\\']) expect(await search(wild)).toEqual([])
})

test('other exact matches come before references, newer licences before older; a licence is listed once, under its first match', async () => {
  const text = 'dup.example'
  const byReference = await given(text)
  const byHost = await given('x', { domains: [text] })
  const byLegacy = await imported(text, `${text}.longer`)
  const sold = await given(`${text}/2`)
  expect(
    await search(text, [
      { licenceId: sold.id, matched: 'charge_ref' },
      { licenceId: byLegacy, matched: 'sale_id' },
    ]),
  ).toEqual([
    `charge_ref ${sold.id}`,
    `legacy_key ${byLegacy}`,
    `host ${byHost.id}`,
    `external_ref ${byReference.id}`,
  ])
})

test('the newest 20 matches are found, also among very many references with the same beginning', async () => {
  for (const batch of ['bulk-a', 'bulk-b', 'bulk-c']) {
    const names = Array.from({ length: 500 }, (_, at) => `${batch}-${at}`)
    await importItems(
      harness,
      names.map((name) => ({ legacyKey: name, externalRef: name, planId })),
    )
  }
  const newestOf = async (like: string) =>
    (
      await harness.sql<{ id: string }[]>`
        select id from licences where application_id = ${harness.applicationId} and external_ref like ${like}
        order by id desc limit 20`
    ).map(({ id }) => `external_ref ${id}`)
  expect(await search('BULK')).toEqual(await newestOf('bulk%'))
  expect(await search('bulk-a')).toEqual(await newestOf('bulk-a%'))
})

test('licences of another account or application are not found', async () => {
  const licence = await given('mine alone', { domains: ['mine.example'] })
  const { activationId } = await givenActivation(harness.products, licence, { host: 'mine.example' })
  for (const scope of [
    { accountId: newId('acct'), applicationId: harness.applicationId },
    { accountId: harness.accountId, applicationId: newId('app') },
  ]) {
    for (const query of [licence.id, licence.key, activationId, 'mine.example', 'mine alone', 'mine']) {
      const ofSales = [{ licenceId: licence.id, matched: 'charge_ref' }]
      const { found } = await harness.licensing.searchLicences({ ...scope, query, ofSales })
      expect(found).toEqual([])
    }
  }
})

test.each(['', 'x', '🦊', 'x'.repeat(256), 'nul\0'])('%j is refused as a search text', async (query) => {
  await expect(search(query)).rejects.toMatchObject({ code: 'validation_failed' })
})
