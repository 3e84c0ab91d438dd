import { timestampDate, timestampFromDate } from '@bufbuild/protobuf/wkt'
import { newId } from '@licensing/database/ids'
import type { PlanCopy } from '@licensing/proto/catalog'
import type { Licence } from '@licensing/proto/licensing'
import { expect } from 'vitest'
import { sweepExpiries } from '../src/sweeps/sweep-expiries.ts'
import type { Harness } from './harness.ts'
import {
  activeOn,
  archive,
  countedOn,
  events,
  givenPlan,
  issue,
  restore,
  findWrongSnapshots,
  findWrongStatuses,
  verbOn,
} from './makers.ts'
import type { SentEvent } from './makers.ts'
import type { Call } from './model-calls.ts'
import { hasEnded, Model } from './model.ts'
import type { ModelLicence, Outcome, Paid } from './model.ts'
import { apply, buy, kindOf, renewal, tick } from './purchases.ts'
import type { Bought } from './purchases.ts'

// Equal numbers of days are the same time.
const startedMs = Date.now()
const modelDay = (days: number) => new Date(startedMs + days * 86_400_000)

// Few customers, so that payments often concern an existing licence.
const customerOf = (place: number) => `customer ${place % 2}`

/** Runs one sequence in an application of its own, and the same in the model. */
export async function startRun(harness: Harness) {
  const within: Harness = { ...harness, accountId: newId('acct'), applicationId: newId('app') }
  const model = new Model()
  const plans: PlanCopy[] = [await givenPlan(within), await givenPlan(within)]
  for (const one of plans) model.plans.set(one.id, 'active')
  // Licence ids of the service by the names of the model.
  const ids = new Map<string, string>()
  await within.sql`truncate outbox`

  const compare = async (expected: Outcome, answer: Promise<Licence>) => {
    const actual = await answer.then(
      (licence) => ({
        id: licence.id,
        status: licence.status,
        reason: licence.statusReason,
        plan: licence.planId,
        end: licence.expiresOn && timestampDate(licence.expiresOn),
      }),
      (error: { code: string }) => ({ refused: error.code }),
    )
    if ('refused' in expected) {
      expect(actual).toEqual({ refused: expected.refused })
      return compareEvents([])
    }
    const { licence, events: sent = [] } = expected
    if ('id' in actual && !ids.has(licence.name)) ids.set(licence.name, actual.id)
    expect(actual).toEqual({
      id: ids.get(licence.name),
      status: licence.status,
      reason: licence.reason,
      plan: licence.restsOn.plan,
      end: licence.restsOn.endsIn === undefined ? undefined : modelDay(licence.restsOn.endsIn),
    })
    await compareEvents(sent)
  }
  const compareEvents = async (expected: SentEvent[]) => {
    const sent = await events(within)
    const named = expected.map(({ type, object, previous }): SentEvent => {
      return { type, object: { ...object, licence_id: ids.get(String(object['licence_id'])) }, previous }
    })
    const ofLicence = ({ object }: SentEvent) => String(object['licence_id'])
    const inOrder = (list: SentEvent[]) => list.toSorted((a, b) => (ofLicence(a) < ofLicence(b) ? -1 : 1))
    expect(inOrder(sent)).toEqual(inOrder(named))
    await within.sql`truncate outbox`
  }
  const pick = (place: number): { licence: ModelLicence; real: { id: string } } | undefined => {
    const licence = model.licences[place % model.licences.length]
    return licence && { licence, real: { id: ids.get(licence.name)! } }
  }
  // The paid purchases as they were sent to the service.
  const processed = new Map<string, Bought>()
  const pickPaid = (place: number, current: boolean): { paid: Paid; real: Bought } | undefined => {
    const drawn = model.paid[place % model.paid.length]
    const rests = drawn?.licence.restsOn
    const paid = drawn && current && rests?.ref !== undefined ? { ...drawn, purchase: rests } : drawn
    return paid && { paid, real: processed.get(paid.purchase.ref!)! }
  }
  const changed = (licences: ModelLicence[], type: string, more: Record<string, string> = {}) =>
    licences.map(({ name, status }) => ({
      type,
      object: { licence_id: name, status, ...more },
      previous: null,
    }))

  return {
    async step(one: Call) {
      const planId = 'plan' in one ? plans[one.plan]!.id : ''
      switch (one.call) {
        case 'issue': {
          const fields = { idempotencyKey: `key ${one.key}`, body: `body ${one.body}`, planId }
          const externalRef = customerOf(one.key)
          const expected = model.issue(fields.idempotencyKey, fields.body, externalRef, planId)
          return compare(
            expected,
            issue(within, { ...fields, externalRef }).then((answer) => answer.licence!),
          )
        }
        case 'import':
          return compare(
            model.import(`legacy ${one.key}`, customerOf(one.key), planId),
            importOne(within, `legacy ${one.key}`, customerOf(one.key), planId),
          )
        case 'pay': {
          const externalRef = customerOf(one.customer)
          // The reference includes the customer: a payment belongs to one.
          const purchaseRef = `payment ${one.payment} ${externalRef}`
          const expected = model.pay(purchaseRef, externalRef, planId, one.days ?? undefined)
          const orderedAt = processed.get(purchaseRef)?.bought.orderedAt ?? tick()
          const endsAt = one.days === null ? {} : { endsAt: modelDay(one.days) }
          const paying = buy(within, { planId, externalRef, purchaseRef, orderedAt, ...endsAt })
          return compare(
            expected,
            paying.then((answer) => {
              processed.set(purchaseRef, answer)
              return answer.licence
            }),
          )
        }
        case 'verb': {
          const found = pick(one.licence)
          return found && compare(model.verb(one.verb, found.licence), callVerb(within, one.verb, found.real))
        }
        case 'consequence': {
          const found = pickPaid(one.purchase, one.current)
          if (!found) return
          const { paid, real } = found
          // Left out here: it counts once a renewal shows that the purchase had not ended. orders.test.ts tests it.
          if (one.name === 'an inquiry' && hasEnded(paid.purchase)) return
          const cause = `cause ${one.cause}`
          return compare(
            model.consequence(one.name, paid, cause),
            apply(within, real, kindOf(one.name), tick(), cause),
          )
        }
        case 'renew': {
          const found = pickPaid(one.purchase, one.current)
          if (!found) return
          const { paid, real } = found
          if (model.mayBringBack(paid)) return
          const cause = `cause ${one.cause}`
          return compare(
            model.renew(paid, cause, one.days),
            apply(within, real, renewal(modelDay(one.days)), tick(), cause),
          )
        }
        case 'update': {
          const found = pick(one.licence)
          const endsIn = one.days ?? undefined
          return found && compare(model.update(found.licence, endsIn), moveEnd(within, found.real, endsIn))
        }
        case 'archive': {
          if (model.plans.get(planId) === 'retired') return
          const suspended = model.archive(planId)
          const answer = await archive(within, plans[one.plan]!)
          expect(Number(answer.suspendedLicences)).toBe(suspended.length)
          return compareEvents(changed(suspended, 'licence.suspended', { reason: 'plan_archived' }))
        }
        case 'restore': {
          if (model.plans.get(planId) === 'active') return
          model.restore(planId)
          await restore(within, plans[one.plan]!)
          return compareEvents([])
        }
        case 'sweep': {
          const swept = model.sweep()
          await sweepExpiries(within.deps)
          return compareEvents(swept.flatMap((one) => one.events))
        }
      }
    },
    async compareCounts() {
      for (const one of plans) {
        expect(Number(await activeOn(within, one))).toBe(model.activeOn(one.id))
        expect(Number(await countedOn(within, one))).toBe(model.activeOn(one.id))
      }
      expect(await findWrongStatuses(within)).toEqual([])
      expect(await findWrongSnapshots(within)).toEqual({ missing: [], unused: [] })
      // Licences that are still due must not affect the next run.
      await sweepExpiries(within.deps)
    },
  }
}

async function importOne(
  within: Harness,
  legacyKey: string,
  externalRef: string,
  planId: string,
): Promise<Licence> {
  const { accountId, applicationId } = within
  const items = [{ legacyKey, externalRef, planId }]
  const request = { accountId, applicationId, actor: 'key_1', items, dryRun: false }
  const answer = await within.licensing.importLicences(request)
  const [item] = answer.items
  if (item!.error) throw Object.assign(new Error(item!.error.detail), { code: item!.error.code })
  return (await within.licensing.getLicence(verbOn(within, { id: item!.licenceId! }))).licence!
}

function moveEnd(within: Harness, licence: { id: string }, endsIn: number | undefined): Promise<Licence> {
  const end = endsIn === undefined ? undefined : timestampFromDate(modelDay(endsIn))
  return within.licensing.updateLicence({
    ...verbOn(within, licence),
    neverExpires: end === undefined,
    ...(end && { expiresOn: end }),
  })
}

function callVerb(
  within: Harness,
  verb: 'suspend' | 'reactivate' | 'revoke' | 'retire',
  licence: { id: string },
): Promise<Licence> {
  return within.licensing[`${verb}Licence`](verbOn(within, licence))
}
