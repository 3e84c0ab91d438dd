import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import type { PlanCopy } from '@licensing/proto/catalog'
import { closedSets } from '@licensing/proto/closed-sets'
import type { LicenceVerb, PlanStatus } from '@licensing/proto/closed-sets'
import type { Licence } from '@licensing/proto/licensing'
import { webhookTypeOf } from '@licensing/proto/webhook-events'
import { drawing, drawn } from '@licensing/test-support/drawn'
import { expect, test } from 'vitest'
import {
  allowedVerbs,
  announcements,
  bulkChanges,
  leads,
  payable,
  purchaseStates,
  stateAfter,
  statusOf,
  stepsOf,
} from '../src/lifecycle/licence.ts'
import type { BulkChange, Hold, Lead, LicenceState, PurchaseState, Step } from '../src/lifecycle/licence.ts'
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
  findUnruledStatuses,
  findWrongStatuses,
  update,
  verbOn,
  detailOf,
} from './makers.ts'
import type { SentEvent } from './makers.ts'
import { apply, buy, daysAgo, inDays, kindOf, renewal, tick, unique } from './purchases.ts'
import type { Bought, EffectName } from './purchases.ts'

// Real calls lead licences into every state, and make every change in each of them. The expected results come from the
// functions of `licence.ts`, whose own test has them written out. So a statement that disagrees with them fails here.

const harness = await forFile(startHarness)

/** A state that a licence can have, and whether the sweep has expired it. */
interface Position {
  hold: Hold
  purchase: PurchaseState
  isSwept: boolean
}

const isEnded = (purchase: PurchaseState) => purchase === 'cancelled' || purchase === 'refunded'

const positions: Position[] = [
  ...(['none', 'manual', 'plan_archived'] as const).flatMap((hold) =>
    purchaseStates
      // A partial refund ends a suspension.
      .filter((purchase) => hold === 'none' || purchase !== 'partially_refunded')
      .flatMap((purchase) =>
        (isEnded(purchase) ? [false] : [false, true]).map((isSwept) => ({ hold, purchase, isSwept })),
      ),
  ),
  { hold: 'revoked', purchase: 'paid', isSwept: false },
  { hold: 'retired', purchase: 'paid', isSwept: false },
]

const [ahead, passed] = [inDays(2), daysAgo(2)]

function stateOf({ hold, purchase, isSwept }: Position): LicenceState {
  return { hold, purchase, ...statusOf({ hold, purchase, end: isSwept ? passed : ahead, now: new Date() }) }
}

interface Given extends Bought {
  plan: PlanCopy
  position: Position
}

type Expected =
  | { refused: 'conflict' | 'plan_archived' }
  | { after: LicenceState; steps: Step[]; actor?: string; cause?: string }

interface Change {
  call: (given: Given) => Promise<Licence | undefined>
  expected: (given: Given) => Expected
}

const cause = 'the cause'
/** Stands for the cause with the version of the archive. */
const byArchive = 'an archive'

/** A change of the purchases of a licence. By default it keeps what they call for, and the end. */
function ofPurchases(
  call: Change['call'],
  purchaseAfter: (position: Position) => PurchaseState = ({ purchase }) => purchase,
  newEnd?: Date,
): Change {
  const expected = ({ plan, position }: Given): Expected => {
    const before = stateOf(position)
    if (!payable.includes(before.status)) return { after: before, steps: [] }
    const moves = newEnd !== undefined && !isEnded(position.purchase)
    const end = moves ? newEnd : position.isSwept ? passed : ahead
    const change = { purchase: purchaseAfter(position), end, now: new Date() }
    const after = stateAfter(before, { ...change, plan: statusOfPlan(plan), isReplaced: false })
    const isSame = after.hold === before.hold && after.purchase === before.purchase
    const leading: Lead[] = moves ? [isSame ? leads.returned : leads.renewed] : []
    return { after, steps: stepsOf(before, after, leading), actor: 'processor', cause }
  }
  return { call, expected }
}

const happens = (name: EffectName) => (given: Given) => apply(harness, given, kindOf(name), tick(), cause)
const renews = (end: Date) => (given: Given) => apply(harness, given, renewal(end), tick(), cause)
/** The first problem decides. What happens after the end of a licence does not count. */
const problem =
  (kind: PurchaseState) =>
  ({ purchase, isSwept }: Position): PurchaseState => {
    if (!isSwept) return purchase === 'paid' ? kind : purchase
    // Only the latest series of failed payments is known.
    return purchase === kind && kind === 'payment_failed' ? 'paid' : purchase
  }
const unlessEnded = (kind: PurchaseState) => (position: Position) =>
  isEnded(position.purchase) ? position.purchase : kind
const afterRenewal = ({ purchase }: Position) =>
  isEnded(purchase) || purchase === 'inquiry_opened' ? purchase : 'paid'

/** A change by one statement. */
const inBulk = (name: keyof typeof bulkChanges, call: Change['call'], by: Partial<Expected> = { actor }) => ({
  call,
  expected: ({ plan, position }: Given): Expected => {
    const { from, to, reason, hold, repeatable, ...change }: BulkChange = bulkChanges[name]
    const before = stateOf(position)
    const isMatch = from.includes(before.status)
    if (isMatch && (change.plan ?? plan.status) !== plan.status) return { refused: 'plan_archived' }
    const isVerb = (closedSets.licenceVerb as readonly string[]).includes(name)
    if (!isMatch && isVerb && !(repeatable && before.status === to)) return { refused: 'conflict' }
    if (!isMatch) return { after: before, steps: [] }
    const purchase = change.ignoresEarlierPaymentProblems ? ('paid' as const) : before.purchase
    const after = { hold: hold ?? before.hold, purchase, status: to, status_reason: reason ?? null }
    return { after, steps: [{ ...announcements[to], from: before.status, to }], ...by }
  },
})

const verb = ({ licence }: Given) => verbOn(harness, licence)
const calls: Record<LicenceVerb, Change['call']> = {
  suspend: (given) => harness.licensing.suspendLicence(verb(given)),
  reactivate: (given) => harness.licensing.reactivateLicence(verb(given)),
  revoke: (given) => harness.licensing.revokeLicence(verb(given)),
  retire: (given) => harness.licensing.retireLicence(verb(given)),
}

const changes: Record<string, Change> = {
  ...Object.fromEntries(closedSets.licenceVerb.map((name) => [name, inBulk(name, calls[name])])),
  'an archive': inBulk('plan_archived', async ({ plan }) => void (await archive(harness, plan)), {
    actor,
    cause: byArchive,
  }),
  'the sweep': inBulk('end_passed', async () => void (await sweepExpiries(harness.deps)), { actor: 'sweep' }),
  'failed payments': ofPurchases(happens('failed payments'), problem('payment_failed')),
  'an inquiry': ofPurchases(happens('an inquiry'), problem('inquiry_opened')),
  'an inquiry that closes': ofPurchases(happens('an inquiry that closes'), ({ purchase }) =>
    purchase === 'inquiry_opened' ? 'paid' : purchase,
  ),
  'a full refund': ofPurchases(happens('a full refund'), () => 'refunded'),
  'a chargeback': ofPurchases(happens('a chargeback'), () => 'refunded'),
  'a partial refund': ofPurchases(happens('a partial refund'), unlessEnded('partially_refunded')),
  'a cancelled subscription': ofPurchases(happens('a cancelled subscription'), ({ purchase }) =>
    purchase === 'refunded' ? purchase : 'cancelled',
  ),
  'a cancellation for the end of the period': ofPurchases(
    happens('a cancellation for the end of the period'),
  ),
  'the undoing of such a cancellation': ofPurchases(happens('the undoing of such a cancellation')),
  'a renewal': ofPurchases(renews(inDays(60)), afterRenewal, inDays(60)),
  'a renewal that moves no end': ofPurchases(renews(daysAgo(9)), afterRenewal),
  'a renewal of a period that is over': ofPurchases(
    async (given) => {
      await letEnd(given)
      return renews(daysAgo(1))(given)
    },
    afterRenewal,
    daysAgo(1),
  ),
  'a payment': {
    call: async ({ plan, bought: { externalRef } }) => {
      const payment = { planId: plan.id, externalRef, purchaseRef: cause + externalRef, orderedAt: tick() }
      return (await buy(harness, payment)).licence
    },
    expected: ({ plan, position, bought: { externalRef } }) => {
      const before = stateOf(position)
      if (plan.status === 'retired') return { refused: 'plan_archived' }
      if (!payable.includes(before.status)) return { after: before, steps: [] }
      // An inquiry about a valid purchase goes on.
      const goesOn = position.purchase === 'inquiry_opened' && !position.isSwept
      const purchase = goesOn ? 'inquiry_opened' : 'paid'
      const change = { purchase, end: null, now: new Date(), plan: 'active', isReplaced: true } as const
      const after = stateAfter(before, change)
      return {
        after,
        steps: stepsOf(before, after, [leads.sold]),
        actor: 'processor',
        cause: cause + externalRef,
      }
    },
  },
  'an end moved ahead': {
    call: (given) => update(harness, given.licence, { expiresOn: timestampFromDate(inDays(90)) }),
    expected: ({ plan, position: { hold, ...position } }) => {
      const before = stateOf({ hold, ...position })
      if (!payable.includes(before.status)) return { refused: 'conflict' }
      const purchase = position.purchase === 'cancelled' ? 'paid' : position.purchase
      const found = statusOf({ hold, purchase, end: null, now: new Date() })
      const isRefused = plan.status === 'retired' && found.status === 'active'
      if (isRefused) return { refused: 'plan_archived' }
      return { after: { hold, purchase, ...found }, steps: stepsOf(before, found, [leads.extended]), actor }
    },
  },
}

const statusOfPlan = ({ status }: PlanCopy) => status as PlanStatus

const cases = Object.keys(changes).flatMap((name) => closedSets.planStatus.map((plan) => ({ name, plan })))
test.each(drawn(cases, 12))(
  `$name, on a plan that is $plan, has the result of the rules in every state of a licence (${drawing})`,
  async ({ name, plan }) => {
    await harness.sql`truncate outbox`
    const licences = await givenLicences(plan)
    const { call, expected } = changes[name]!
    if (name === 'the sweep') await Promise.all(licences.map(letEnd))
    const results = licences.map((given) => ({ given, result: expected(given) }))
    const before = await observe(licences)
    await Promise.all(
      results.map(async ({ given, result }) => {
        if ('refused' in result) await expectRefusal(call(given), given, result.refused)
        else await call(given)
      }),
    )
    const shown = results.map(({ given, result }, at) => ({
      ...before[at]!,
      ...shownAfter(given, result, before[at]!),
    }))
    expect(await observe(licences)).toEqual(shown)
    for (const each of licences) {
      expect(await activeOn(harness, each.plan)).toBe(await countedOn(harness, each.plan))
    }
    expect(await findWrongStatuses(harness)).toEqual([])
    expect(await findUnruledStatuses(harness)).toEqual([])
  },
)

async function expectRefusal(call: Promise<unknown>, { position, plan }: Given, code: string) {
  const problem = await refusal(call)
  expect({ position, code: problem.code }).toEqual({ position, code })
  if (!('current' in problem.members)) return
  const { status } = stateOf(position)
  expect(problem.members).toEqual({ current: status, allowed: allowedVerbs(status, statusOfPlan(plan)) })
}

async function observe(licences: Given[]) {
  const sent = await events(harness)
  return Promise.all(
    licences.map(async ({ licence, position }) => {
      const { licence: now, allowed } = await detailOf(harness, licence)
      const [stored] = await harness.sql<Pick<LicenceState, 'hold' | 'purchase'>[]>`
        select hold, purchase from licences where id = ${licence.id}`
      return {
        position,
        ...stored!,
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

/** The visible result of a change. */
function shownAfter({ licence, plan }: Given, result: Expected, before: Observed): Partial<Observed> {
  if ('refused' in result) return {}
  const { after, steps, actor = '', cause } = result
  const { hold, purchase, status } = after
  const reason = after.status_reason ?? undefined
  const by = { actor, cause: cause === byArchive ? `archive:${plan.id}:${plan.archiveVersion}` : cause }
  const planId = { plan_id: plan.id }
  const sent = steps.flatMap(({ emits }): SentEvent[] => {
    if (!emits) return []
    const isSold = emits === 'licencePlanChanged'
    const more = isSold ? planId : emits === 'licenceSuspended' ? { reason } : {}
    const object = { licence_id: licence.id, ...more, status }
    return [{ type: webhookTypeOf(emits)!, object, previous: isSold ? planId : null }]
  })
  return {
    hold,
    purchase,
    status,
    reason,
    allowed: allowedVerbs(status, statusOfPlan(plan)),
    events: [...before.events, ...sent],
    history: [...before.history, ...steps.map(({ history: type, from, to }) => ({ type, from, to, ...by }))],
  }
}

/** A licence in each position, reached by real calls. No licence is active on a retired plan. */
async function givenLicences(planStatus: PlanStatus): Promise<Given[]> {
  const possible = positions.filter((one) => planStatus === 'active' || stateOf(one).status !== 'active')
  const licences = await Promise.all(
    possible.map(async (position): Promise<Given> => {
      const plan = await givenPlan(harness)
      const buying = { planId: plan.id, externalRef: unique('buyer'), orderedAt: daysAgo(9), endsAt: ahead }
      const given = { ...(await buy(harness, buying)), plan, position }
      await lead(given)
      if (position.isSwept) await letEnd(given)
      return given
    }),
  )
  await sweepExpiries(harness.deps)
  if (planStatus === 'retired') await Promise.all(licences.map(({ plan }) => archive(harness, plan)))
  return licences
}

const leading: Record<Exclude<PurchaseState, 'paid'>, EffectName> = {
  payment_failed: 'failed payments',
  inquiry_opened: 'an inquiry',
  partially_refunded: 'a partial refund',
  cancelled: 'a cancelled subscription',
  refunded: 'a full refund',
}

async function lead(given: Given): Promise<void> {
  const { hold, purchase } = given.position
  if (hold === 'manual') await calls.suspend(given)
  else if (hold === 'plan_archived') {
    await archive(harness, given.plan)
    await restore(harness, given.plan)
  } else if (hold === 'revoked') await calls.revoke(given)
  else if (hold === 'retired') await calls.retire(given)
  if (purchase !== 'paid') await apply(harness, given, kindOf(leading[purchase]), daysAgo(5))
}

/** Lets the end of the licence pass. */
async function letEnd({ licence: { id } }: Given): Promise<void> {
  await harness.sql`update licences set expires_on = ${passed} where id = ${id}`
  await harness.sql`
    update purchases set ends_at = ${passed}, bought_ends_at = ${passed} where licence_id = ${id}`
}
