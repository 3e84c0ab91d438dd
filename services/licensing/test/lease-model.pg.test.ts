import { timestampDate } from '@bufbuild/protobuf/wkt'
import { isFull } from '@licensing/test-support/drawn'
import { assert, asyncProperty } from 'fast-check'
import { expect, test } from 'vitest'
import { fileDays, leaseCalls, LeaseModel, leaseMinutes } from './lease-model.ts'
import type { Answer, LeaseCall } from './lease-model.ts'
import { expectLeasesConsistent, leasesInUse, passMinutes, setConcurrent } from './leases.ts'
import { givenLicence, verbOn } from './makers.ts'
import { forFile, startHarness } from './harness.ts'
import { freeUnused } from '../src/activations/unused-queries.ts'

// The number of sequences; each has about forty calls.
const numRuns = Number(process.env['MODEL_RUNS'] ?? (isFull ? 25 : 4))
const maxSeconds = Number(process.env['MODEL_SECONDS'] ?? 120)

const harness = await forFile(startHarness)

const slots = 4

/** Runs calls on a new licence. */
async function startRun(max: number) {
  const { products, licensing, accountId, applicationId } = harness
  const limits = { maxConcurrent: max, leaseMinutes, maxActivations: slots }
  const licence = await givenLicence(harness, { ...limits })
  // The latest activation and token of each machine, freed or not.
  const known = new Map<number, { activationId: string; token: string }>()
  const run = async (one: LeaseCall): Promise<unknown> => {
    if (one.call === 'wait') {
      await passMinutes(harness, one.minutes, { licence })
      return harness.sql.begin((tx) => freeUnused(tx, licence.id, slots))
    }
    if (one.call === 'limit') return setConcurrent(harness, licence, one.max, leaseMinutes)
    const machine = { host: 'machine.example.com', productVersion: '1' }
    const asked = { licenceKey: licence.key, fingerprint: `m-${one.machine}`, ...machine }
    if (one.call === 'activate') {
      const { grant } = await products.activate({ ...asked, ...(one.replaces && { replace: 'oldest' }) })
      return known.set(one.machine, grant!)
    }
    if (one.call === 'activate offline') {
      const request = { ...asked, accountId, applicationId, days: fileDays }
      const { activationId, file } = await products.activateOffline(request)
      return known.set(one.machine, { activationId, token: file.split('\n')[1]! })
    }
    const own = known.get(one.machine)
    if (!own) throw Object.assign(new Error('it was never activated'), { code: 'not_found' })
    switch (one.call) {
      case 'refresh':
        return products.refreshActivation({ ...own, ...machine })
      case 'call home':
        return products.recordCallHome({ ...own, ...machine })
      case 'release':
        return products.release(own)
      case 'deactivate':
        return products.deactivate(own)
      case 'free':
        return licensing.freeActivation({ ...verbOn(harness, licence), activationId: own.activationId })
    }
  }
  return {
    licence,
    answerOf: (one: LeaseCall): Promise<Answer> =>
      run(one).then(
        () => 'ok',
        (error: { code: Answer }) => error.code,
      ),
    /** The minutes until the ends of leases, by machine. */
    async ends() {
      const { activations } = await licensing.getLicence(verbOn(harness, licence))
      return new Map(
        activations.map(({ fingerprint, leaseEndsAt }) => [
          Number(fingerprint.slice(2)),
          leaseEndsAt && (timestampDate(leaseEndsAt).getTime() - Date.now()) / 60_000,
        ]),
      )
    },
  }
}

test(
  'after any sequence of calls, answers, slots and leases follow the written rules',
  { timeout: (maxSeconds + 60) * 1_000 },
  async () => {
    const property = asyncProperty(leaseCalls, async (sequence) => {
      const run = await startRun(2)
      const model = new LeaseModel(2, slots)
      for (const one of sequence) {
        const expected = model.do(one)
        expect({ one, answer: await run.answerOf(one) }).toEqual({ one, answer: expected })
        const ends = await run.ends()
        expect(new Set(ends.keys())).toEqual(new Set(model.ends.keys()))
        for (const [machine, minutes] of model.ends) {
          if (minutes === undefined) expect(ends.get(machine)).toBeUndefined()
          else expect(Math.abs(ends.get(machine)! - minutes)).toBeLessThan(3)
        }
        expect(await leasesInUse(harness, run.licence)).toBe(model.inUse)
      }
      await expectLeasesConsistent(harness)
    })
    await expect(
      assert(property, {
        numRuns,
        endOnFailure: !process.env['MODEL_SHRINK'],
        interruptAfterTimeLimit: maxSeconds * 1_000,
      }),
    ).resolves.toBeUndefined()
  },
)
