import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import type { PlanCopy } from '@licensing/proto/catalog'
import type { Licence } from '@licensing/proto/licensing'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { sweepExpiries } from '../src/sweeps/sweep-expiries.ts'
import { startHarness } from './harness.ts'
import type { Harness } from './harness.ts'
import {
  activeOn,
  actor,
  archive,
  countedOn,
  events,
  givenPlan,
  history,
  refusal,
  restore,
  findWrongStatuses,
  verbOn,
} from './makers.ts'
import type { EffectName } from './purchases.ts'
import { happen, inDays, provision, renew, unique } from './purchases.ts'
import { allowedIn, describe, positions, resultOf, rules } from '@licensing/test-support/licence-rules'
import type { Cause, Position, Result } from '@licensing/test-support/licence-rules'
import { lifecycle } from '../src/lifecycle/licence.ts'
import type { Cause as RowName } from '../src/lifecycle/licence.ts'

let harness: Harness
beforeAll(async () => {
  harness = await startHarness()
})
afterAll(() => harness[Symbol.asyncDispose]())

interface Given {
  plan: PlanCopy
  licence: Licence
  externalRef: string
}

const cause = 'the cause'
const verb = ({ licence }: Given) => verbOn(harness, licence)
const happens =
  (name: EffectName) =>
  ({ licence }: Given) =>
    happen(harness, licence, name, cause)
/** How each cause happens in the service: by a call or by background work. */
const bring: Record<Cause, (given: Given) => Promise<Licence | undefined>> = {
  suspend: (given) => harness.licensing.suspendLicence(verb(given)),
  reactivate: (given) => harness.licensing.reactivateLicence(verb(given)),
  revoke: (given) => harness.licensing.revokeLicence(verb(given)),
  retire: (given) => harness.licensing.retireLicence(verb(given)),
  'an end moved ahead': (given) =>
    harness.licensing.updateLicence({
      ...verb(given),
      expiresOn: timestampFromDate(inDays(90)),
      neverExpires: false,
    }),
  archive: async ({ plan }) => void (await archive(harness, plan)),
  sweep: async (given) => {
    await letEnd(given)
    await sweepExpiries(harness.deps)
  },
  'failed payments': happens('failed payments'),
  'an inquiry': happens('an inquiry'),
  'an inquiry that closes': happens('an inquiry that closes'),
  'a full refund': happens('a full refund'),
  'a chargeback': happens('a chargeback'),
  'a partial refund': happens('a partial refund'),
  'a cancelled subscription': happens('a cancelled subscription'),
  'a cancellation for the end of the period': happens('a cancellation for the end of the period'),
  'the undoing of such a cancellation': happens('the undoing of such a cancellation'),
  'a payment': async ({ plan, externalRef }) =>
    (await provision(harness, { planId: plan.id, externalRef, paymentRef: cause + externalRef })).licence,
  'a renewal': ({ licence }) => renew(harness, licence, inDays(60), cause),
  'a renewal of a period that is over': async (given) => {
    await letEnd(given)
    return renew(harness, given.licence, inDays(-1), cause)
  },
  'a renewal that moves no end': ({ licence }) => renew(harness, licence, inDays(-9), cause),
}

const everyCase = (Object.keys(rules) as Cause[]).flatMap((cause) =>
  positions.flatMap((position) =>
    ['active', 'retired']
      // There is never an active licence on a retired plan.
      .filter((plan) => plan === 'active' || position.status !== 'active')
      .map((plan) => ({ cause, position, plan })),
  ),
)

// The causes that test each row of the service's table. A row without a cause does not compile.
const walkedBy: Record<RowName, Cause[]> = {
  suspend: ['suspend'],
  reactivate: ['reactivate'],
  revoke: ['revoke'],
  retire: ['retire'],
  extended: ['an end moved ahead'],
  plan_archived: ['archive'],
  expiry_passed: ['sweep'],
  payment_failed: ['failed payments'],
  inquiry_opened: ['an inquiry'],
  inquiry_closed: ['an inquiry that closes'],
  refunded: ['a full refund'],
  charged_back: ['a chargeback'],
  partially_refunded: ['a partial refund'],
  canceled: ['a cancelled subscription'],
  paid: ['a payment'],
  purchase_replaced: [],
  renewed: ['a renewal', 'a renewal of a period that is over', 'a renewal that moves no end'],
  price_changed: [],
  payment_recovered: ['a renewal', 'a renewal that moves no end'],
  moved_to_retired_plan: ['a renewal', 'a renewal that moves no end'],
  replaced_on_retired_plan: [],
}

// They change no status, so the table has no row for them.
const withoutRow: Cause[] = ['a cancellation for the end of the period', 'the undoing of such a cancellation']

test('the tests cover exactly the causes of the lifecycle', () => {
  expect(Object.keys(walkedBy)).toEqual(Object.keys(lifecycle))
  expect(new Set([...Object.values(walkedBy).flat(), ...withoutRow])).toEqual(new Set(Object.keys(rules)))
})

for (const { cause, position, plan } of everyCase) {
  const result = resultOf(cause, position, plan)
  const of = `of a licence that is ${describe(position)}${plan === 'retired' ? ', on a retired plan,' : ''}`
  test(`${cause} ${of} ${inWords(result)}`, async () => {
    const given = await givenLicenceAt(position, plan)
    const before = await observe(given)
    if ('refused' in result) await expectRefused(cause, given, position, result.refused)
    else {
      const answer = await bring[cause](given)
      const isTheLicence = answer?.id === given.licence.id
      expect(isTheLicence).toBe(answer !== undefined && !('newLicence' in result))
    }
    const after = await observe(given)
    expect(after).toEqual({ ...before, ...changesOf(result, position, cause, given, before) })
    expect(await activeOn(harness, given.plan)).toBe(await countedOn(harness, given.plan))
    expect(await findWrongStatuses(harness)).toEqual([])
  })
}

function inWords(result: Result): string {
  if ('refused' in result) return `is refused: ${result.refused}`
  if (!('to' in result)) return 'changes nothing of it'
  return `leaves it ${describe({ status: result.to, reason: result.reason })}`
}

async function expectRefused(cause: Cause, given: Given, position: Position, code: string): Promise<void> {
  const problem = await refusal(bring[cause](given))
  expect(problem.code).toBe(code)
  if (cause !== 'a payment') {
    expect(problem.members).toEqual({
      current: position.status,
      allowed: allowedIn(position, given.plan.status),
    })
  }
}

async function observe({ licence }: Given) {
  const { licence: now } = await harness.licensing.getLicence(verbOn(harness, licence))
  return {
    status: now!.status,
    reason: now!.statusReason,
    events: await events(harness, licence),
    history: await history(harness, licence),
  }
}

type Observed = Awaited<ReturnType<typeof observe>>

/** The visible result of a cause that changes a licence. */
function changesOf(
  result: Result,
  position: Position,
  cause: Cause,
  { licence, plan }: Given,
  before: Observed,
): Partial<Observed> {
  if (!('to' in result)) return {}
  const { to: status, reason, event } = result
  const by = doneBy(cause, plan, licence.externalRef)
  const entries = result.history.map(([type, to], at) => ({
    type,
    from: at === 0 ? position.status : result.history[at - 1]![1],
    to,
    ...by,
  }))
  const planId = event === 'licence.plan_changed' ? { plan_id: plan.id } : {}
  const object = { licence_id: licence.id, ...planId, status }
  return {
    status,
    reason,
    history: [...before.history, ...entries],
    events: [
      ...before.events,
      ...(event === undefined
        ? []
        : [
            {
              type: event,
              object: { ...object, ...(event === 'licence.suspended' && { reason }) },
              previous: event === 'licence.plan_changed' ? planId : null,
            },
          ]),
    ],
  }
}

function doneBy(
  done: Cause,
  plan: PlanCopy,
  externalRef: string,
): { actor: string; cause: string | undefined } {
  switch (done) {
    case 'suspend':
    case 'reactivate':
    case 'revoke':
    case 'retire':
    case 'an end moved ahead':
      return { actor, cause: undefined }
    case 'archive':
      return { actor, cause: `archive:${plan.id}:${plan.archiveVersion}` }
    case 'sweep':
      return { actor: 'sweep', cause: undefined }
    case 'a payment':
      return { actor: 'processor', cause: cause + externalRef }
    default:
      return { actor: 'processor', cause }
  }
}

/** A licence in this position, reached by real calls. */
async function givenLicenceAt(position: Position, planStatus: string): Promise<Given> {
  await harness.sql`truncate outbox`
  const plan = await givenPlan(harness)
  const externalRef = unique('buyer')
  const { licence } = await provision(harness, { planId: plan.id, externalRef, expiresOn: inDays(2) })
  const given = { plan, licence, externalRef }
  await lead(given, position)
  if (planStatus === 'retired' && plan.status === 'active') await archive(harness, plan)
  return given
}

async function lead(given: Given, { status, reason, sweptFrom }: Position): Promise<void> {
  const { licensing } = harness
  if (sweptFrom) {
    await lead(given, sweptFrom)
    await letEnd(given)
    await sweepExpiries(harness.deps)
  } else if (status === 'expired') await happen(harness, given.licence, 'a cancelled subscription')
  else if (status === 'downgraded') await happen(harness, given.licence, 'a partial refund')
  else if (status === 'revoked') await licensing.revokeLicence(verb(given))
  else if (status === 'retired') await licensing.retireLicence(verb(given))
  else if (reason === 'manual') await licensing.suspendLicence(verb(given))
  else if (reason === 'plan_archived') {
    await archive(harness, given.plan)
    await restore(harness, given.plan)
  } else if (reason === 'payment_failed') await happen(harness, given.licence, 'failed payments')
  else if (reason === 'dispute_inquiry') await happen(harness, given.licence, 'an inquiry')
}

/** Lets the end of the licence pass. */
async function letEnd({ licence: { id } }: Given): Promise<void> {
  const end = inDays(-2)
  await harness.sql`update licences set expires_on = ${end} where id = ${id}`
  await harness.sql`update purchases set ends_at = ${end}, bought_ends_at = ${end} where licence_id = ${id}`
}
