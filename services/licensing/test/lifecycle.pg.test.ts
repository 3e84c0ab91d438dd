import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import type { PlanCopy } from '@licensing/proto/catalog'
import type { Licence } from '@licensing/proto/licensing'
import { expect, test } from 'vitest'
import { sweepExpiries } from '../src/sweeps/sweep-expiries.ts'
import { forFile, startHarness } from './harness.ts'
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
  update,
  verbOn,
  detailOf,
} from './makers.ts'
import type { EffectName } from './purchases.ts'
import { happen, inDays, provision, renew, unique } from './purchases.ts'
import { allowedIn, describe, positions, resultOf, rules } from '@licensing/test-support/licence-rules'
import type { Cause, Position } from '@licensing/test-support/licence-rules'
import { lifecycle } from '../src/lifecycle/licence.ts'
import type { Cause as RowName } from '../src/lifecycle/licence.ts'

const harness = await forFile(startHarness)

interface Given {
  plan: PlanCopy
  licence: Licence
  externalRef: string
  position: Position
}

const cause = 'the cause'
const verb = ({ licence }: Given) => verbOn(harness, licence)
const happens =
  (name: EffectName) =>
  ({ licence }: Given) =>
    happen(harness, licence, name, cause)
/** The call of each cause. The sweep has none. */
const bring: Record<Exclude<Cause, 'sweep'>, (given: Given) => Promise<Licence | undefined>> = {
  suspend: (given) => harness.licensing.suspendLicence(verb(given)),
  reactivate: (given) => harness.licensing.reactivateLicence(verb(given)),
  revoke: (given) => harness.licensing.revokeLicence(verb(given)),
  retire: (given) => harness.licensing.retireLicence(verb(given)),
  'an end moved ahead': (given) =>
    update(harness, given.licence, { expiresOn: timestampFromDate(inDays(90)) }),
  archive: async ({ plan }) => void (await archive(harness, plan)),
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
  refunded: ['a full refund', 'a chargeback'],
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

const cases = (Object.keys(rules) as Cause[]).flatMap((cause) =>
  ['active', 'retired'].map((planStatus) => ({ cause, planStatus })),
)

test.each(cases)(
  '$cause, on a plan that is $planStatus, has the result of the written rules in every position of a licence',
  async ({ cause, planStatus }) => {
    await harness.sql`truncate outbox`
    const licences = await givenLicences(planStatus)
    const before = await observe(licences)
    if (cause === 'sweep') {
      await Promise.all(licences.map(letEnd))
      await sweepExpiries(harness.deps)
    } else await Promise.all(licences.map((given) => expectAnswer(cause, given)))
    const after = await observe(licences)
    expect(after).toEqual(before.map((seen, at) => ({ ...seen, ...changesOf(cause, licences[at]!, seen) })))
    for (const { plan } of licences) {
      expect(await activeOn(harness, plan)).toBe(await countedOn(harness, plan))
    }
    expect(await findWrongStatuses(harness)).toEqual([])
  },
)

async function expectAnswer(cause: Exclude<Cause, 'sweep'>, given: Given): Promise<void> {
  const { position, plan, licence } = given
  const result = resultOf(cause, position, plan.status)
  if ('refused' in result) {
    const problem = await refusal(bring[cause](given))
    expect([describe(position), problem.code]).toEqual([describe(position), result.refused])
    if (cause === 'a payment') return
    expect(problem.members).toEqual({ current: position.status, allowed: allowedIn(position, plan.status) })
  } else {
    const answer = await bring[cause](given)
    const isTheLicence = answer?.id === licence.id
    expect(isTheLicence).toBe(answer !== undefined && !('newLicence' in result))
  }
}

async function observe(licences: Given[]) {
  const sent = await events(harness)
  return Promise.all(
    licences.map(async ({ licence, position }) => {
      const { licence: now, allowed } = await detailOf(harness, licence)
      return {
        position: describe(position),
        status: now!.status,
        reason: now!.statusReason,
        allowed,
        events: sent.filter(({ object }) => object['licence_id'] === licence.id),
        history: await history(harness, licence),
      }
    }),
  )
}

type Observed = Awaited<ReturnType<typeof observe>>[number]

/** The visible result of a cause that changes a licence. */
function changesOf(cause: Cause, given: Given, before: Observed): Partial<Observed> {
  const { licence, plan, position } = given
  const result = resultOf(cause, position, plan.status)
  if (!('to' in result)) return { allowed: allowedIn(position, plan.status) }
  const { to: status, reason, event } = result
  const by = doneBy(cause, plan, licence.externalRef)
  const entries = result.history.map(([type, to], at) => ({
    type,
    from: at === 0 ? position.status : result.history[at - 1]![1],
    to,
    ...by,
  }))
  const planId = event === 'licence.plan_changed' ? { plan_id: plan.id } : {}
  const object = {
    licence_id: licence.id,
    ...planId,
    status,
    ...(event === 'licence.suspended' && { reason }),
  }
  const previous = event === 'licence.plan_changed' ? planId : null
  return {
    status,
    reason,
    allowed: allowedIn({ status, reason }, plan.status),
    history: [...before.history, ...entries],
    events: [...before.events, ...(event === undefined ? [] : [{ type: event, object, previous }])],
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

/** A licence in each position, reached by real calls. No licence is active on a retired plan. */
async function givenLicences(planStatus: string): Promise<Given[]> {
  const possible = positions.filter(({ status }) => planStatus === 'active' || status !== 'active')
  const licences = await Promise.all(
    possible.map(async (position): Promise<Given> => {
      const plan = await givenPlan(harness)
      const externalRef = unique('buyer')
      const { licence } = await provision(harness, { planId: plan.id, externalRef, expiresOn: inDays(2) })
      const given = { plan, licence, externalRef, position }
      await lead(given, position.sweptFrom ?? position)
      if (position.sweptFrom) await letEnd(given)
      return given
    }),
  )
  await sweepExpiries(harness.deps)
  if (planStatus === 'retired') await Promise.all(licences.map(({ plan }) => archive(harness, plan)))
  return licences
}

async function lead(given: Given, { status, reason }: Position): Promise<void> {
  const { licensing } = harness
  if (status === 'expired') await happen(harness, given.licence, 'a cancelled subscription')
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
