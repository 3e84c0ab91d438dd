import { fullTest } from '@licensing/test-support/drawn'
import { newId } from '@licensing/database/ids'
import { SignJWT } from 'jose'
import { generateKeyPairSync } from 'node:crypto'
import { expect, test } from 'vitest'
import { newLicenceKey } from '../lifecycle/licence-key.ts'
import { givenLicence, givenPlan, atOnce, settledAtOnce } from '../../test/makers.ts'
import { forFile, startHarness } from '../../test/harness.ts'
import { activate, callOf, givenActivation } from '../../test/products.ts'

const harness = await forFile(startHarness)

const { privateKey } = generateKeyPairSync('ed25519')

/** A token for any application that is not signed with a key of the service. */
const forged = (applicationId: string, activationId: string) =>
  new SignJWT({ act: activationId })
    .setProtectedHeader({ alg: 'EdDSA', kid: newId('evt') })
    .setSubject(newId('lic'))
    .setAudience(applicationId)
    .setIssuedAt()
    .setExpirationTime('1h')
    .sign(privateKey)

test('unknown licence keys, legacy keys and tokens are refused even while all connections for known ones are busy', async () => {
  const { applicationId, products, sql } = harness
  const licence = await givenLicence(harness, { planId: (await givenPlan(harness)).id })
  await activate(products, licence)
  const activationId = newId('act')
  // All connections of the pool that serves requests.
  const held = await atOnce(15, () => sql.reserve())
  try {
    const attempts: [string, () => Promise<unknown>][] = [
      ['not_found', () => activate(products, { key: newLicenceKey() })],
      ['not_found', () => products.migrateLegacyKey({ applicationId, legacyKey: newId('evt') })],
    ]
    const token = await forged(newId('app'), activationId)
    const call = callOf({ activationId, token } as Parameters<typeof callOf>[0])
    attempts.push(['unauthenticated', () => products.refreshActivation(call)])
    const flood = Array.from({ length: 400 }, (_, at) => attempts[at % attempts.length]!)
    const outcomes = await Promise.allSettled(flood.map(([, attempt]) => attempt()))
    outcomes.forEach((outcome, at) => {
      expect(outcome).toMatchObject({ status: 'rejected', reason: { code: flood[at]![0] } })
    })
  } finally {
    for (const connection of held) connection.release()
  }
})

fullTest(
  'while look-ups of unknown keys wait, an activation is refreshed; a look-up of its key comes after them',
  async () => {
    const { products } = harness
    const licence = await givenLicence(harness, { planId: (await givenPlan(harness)).id })
    const grant = await givenActivation(products, licence)
    const flood = settledAtOnce(2_000, () => activate(products, { key: newLicenceKey() }))
    expect(await products.refreshActivation(callOf(grant))).toMatchObject({
      activationId: grant.activationId,
    })
    expect(await activate(products, licence)).toMatchObject({ created: true })
    expect(new Set((await flood).map(({ status }) => status))).toEqual(new Set(['rejected']))
  },
)
