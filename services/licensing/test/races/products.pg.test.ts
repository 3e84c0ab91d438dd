import { fullTest } from '@licensing/test-support/drawn'
import { create } from '@bufbuild/protobuf'
import type { PlanCopy } from '@licensing/proto/catalog'
import { RestrictionsSchema } from '@licensing/proto/licensing'
import type { Licence } from '@licensing/proto/licensing'
import type { TokenGrant } from '@licensing/proto/products'
import { constantFrom, sample } from 'fast-check'
import { expect } from 'vitest'
import { sweepExpiries } from '../../src/sweeps/sweep-expiries.ts'
import {
  activeOn,
  archive,
  countedOn,
  deadlocks,
  givenPlan,
  history,
  raceRounds,
  restore,
  verbOn,
  update,
  atOnce,
} from '../makers.ts'
import { bought, happen } from '../purchases.ts'
import { untilAvailable, startReplicas } from '../races.ts'
import { forFile } from '../harness.ts'
import type { Harness } from '../harness.ts'
import { activate, callOf, givenActivation, revocationsOf } from '../products.ts'

const { harness, other } = await forFile(startReplicas)

interface Place {
  replica: Harness
  licence: Licence
  grant: TokenGrant
}

const hosts = ['a.example.com', 'b.example.com', 'c.example.com']

const productCalls: ((at: Place) => Promise<unknown>)[] = [
  ({ replica, licence }) => activate(replica.products, licence),
  ({ replica, licence }) => activate(replica.products, licence, { fingerprint: 'shared' }),
  ({ replica, grant }) => replica.products.refreshActivation(callOf(grant)),
  ...hosts.map((host) => ({ replica, grant }: Place) => {
    return replica.products.recordCallHome(callOf(grant, { host }))
  }),
  ({ replica, grant }) => replica.products.deactivate(callOf(grant)),
  ({ replica, licence }) => {
    const { applicationId } = replica
    return replica.products.migrateLegacyKey({ applicationId, legacyKey: `old-${licence.id}` })
  },
  ({ replica }) => replica.products.getRevocations({ applicationId: replica.applicationId }),
]

const vendorCalls: ((at: Place) => Promise<unknown>)[] = [
  ({ replica, licence }) => replica.licensing.suspendLicence(verbOn(replica, licence)),
  ({ replica, licence }) => replica.licensing.reactivateLicence(verbOn(replica, licence)),
  ({ replica, licence }) => replica.licensing.revokeLicence(verbOn(replica, licence)),
  ({ replica, licence }) => replica.licensing.retireLicence(verbOn(replica, licence)),
  ({ replica, licence }) => happen(replica, licence, 'a full refund', 'rfd_whole'),
  ({ replica, licence }) => happen(replica, licence, 'a partial refund', 'rfd_part'),
  ({ replica, licence }) => happen(replica, licence, 'a cancelled subscription', 'sub'),
  ({ replica }) => sweepExpiries(replica.deps),
]

const expected = new Set(['conflict', 'plan_archived', 'licence_refused', 'limit_reached', 'not_found'])

fullTest(
  'calls of products and the vendor, payments, an archive and sweeps at once: no deadlock, and every revocation is listed',
  async () => {
    for (let round = 0; round < raceRounds; round += 1) {
      const plan = await givenPlan(harness)
      const licences = await atOnce(6, async () => {
        const licence = await bought(harness, plan.id)
        const restrictions = create(RestrictionsSchema, { maxActivations: 4 })
        return update(harness, licence, { restrictions })
      })
      const grants = await Promise.all(
        licences.map((licence) => givenActivation(harness.products, licence, { fingerprint: 'first' })),
      )
      // The licences look imported and not yet seen, so that the calls take the locks for both.
      await harness.sql`update licences set legacy_key = 'old-' || id, seen = false where plan_id = ${plan.id}`
      const drawn = [
        ...sample(constantFrom(...productCalls), 60),
        ...sample(constantFrom(...vendorCalls), 20),
      ].toSorted(() => Math.random() - 0.5)
      const outcomes = await Promise.allSettled([
        archiveAndRestore(plan),
        ...drawn.map((call, at) =>
          untilAvailable(() =>
            call({
              replica: at % 2 === 0 ? harness : other,
              licence: licences[at % 6]!,
              grant: grants[at % 6]!,
            }),
          ),
        ),
      ])
      const refused = outcomes.flatMap((outcome) => (outcome.status === 'rejected' ? [outcome.reason] : []))
      const surprises = refused.filter((error: { code: string }) => !expected.has(error.code))
      expect(surprises).toEqual([])
      expect(await activeOn(harness, plan)).toBe(await countedOn(harness, plan))
      await expectAllListed(licences)
    }
    expect(await deadlocks(harness)).toBe(0)
  },
  600_000,
)

async function archiveAndRestore(plan: PlanCopy): Promise<void> {
  for (let time = 0; time < 3; time += 1) {
    await untilAvailable(() => archive(other, plan))
    await untilAvailable(() => restore(other, plan))
  }
}

async function expectAllListed(licences: Licence[]): Promise<void> {
  const { applicationId } = harness
  const { revoked, version } = await revocationsOf(harness.products, { applicationId })
  expect(version).toBe(BigInt(revoked.length))
  const listed = new Set(revoked)
  expect(listed.size).toBe(revoked.length)
  for (const licence of licences) {
    const types = (await history(harness, licence)).map((entry) => entry.type)
    expect(listed.has(licence.id)).toBe(types.includes('revoked'))
    expect(types.filter((type) => type === 'migrated').length).toBeLessThanOrEqual(1)
  }
}
