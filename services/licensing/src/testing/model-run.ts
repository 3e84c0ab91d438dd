import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import { newId } from '@licensing/database/ids'
import type { PlanCopy } from '@licensing/proto/catalog'
import type { Licence } from '@licensing/proto/licensing'
import { expect } from 'vitest'
import { sweepExpiries } from '../sweeps/sweep-expiries.ts'
import type { Harness } from './harness.ts'
import {
  activeOn,
  archive,
  causeOn,
  countedOn,
  events,
  givenPlan,
  issue,
  restore,
  statusesAstray,
  verbOn,
} from './makers.ts'
import type { SentEvent } from './makers.ts'
import type { Call } from './model-calls.ts'
import { Model } from './model.ts'
import type { ModelLicence, Outcome } from './model.ts'
import { provision, renew, suspendFor } from './payments.ts'

// Equal numbers of days are one time.
const startedMs = Date.now()
const modelDay = (days: number) => new Date(startedMs + days * 86_400_000)

type ShownEvent = Pick<SentEvent, 'type' | 'object'>

/** One sequence, in an application of its own, beside its model. */
export async function startRun(harness: Harness) {
  const within: Harness = { ...harness, accountId: newId('acct'), applicationId: newId('app') }
  const model = new Model()
  const plans: PlanCopy[] = [await givenPlan(within), await givenPlan(within)]
  for (const one of plans) model.plans.set(one.id, 'active')
  // The ids that the service gave to the model's licences.
  const ids = new Map<string, string>()
  await within.sql`truncate outbox`

  const compare = async (expected: Outcome, answer: Promise<Licence>) => {
    const actual = await answer.then(
      (licence) => ({
        id: licence.id,
        status: licence.status,
        reason: licence.statusReason,
        plan: licence.planId,
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
    })
    await compareEvents(sent)
  }
  const compareEvents = async (expected: ShownEvent[]) => {
    const sent = (await events(within)).map(({ type, object }) => ({ type, object }))
    const named = expected.map(({ type, object }): ShownEvent => {
      return { type, object: { ...object, licence_id: ids.get(String(object['licence_id'])) } }
    })
    const ofLicence = ({ object }: ShownEvent) => String(object['licence_id'])
    const inOrder = (list: ShownEvent[]) => list.toSorted((a, b) => (ofLicence(a) < ofLicence(b) ? -1 : 1))
    expect(inOrder(sent)).toEqual(inOrder(named))
    await within.sql`truncate outbox`
  }
  const pick = (place: number): { licence: ModelLicence; real: { id: string } } | undefined => {
    const licence = model.licences[place % model.licences.length]
    return licence && { licence, real: { id: ids.get(licence.name)! } }
  }
  const changed = (licences: ModelLicence[], type: string, more: Record<string, string> = {}) =>
    licences.map(({ name, status }) => ({ type, object: { licence_id: name, status, ...more } }))

  return {
    async step(one: Call) {
      const planId = 'plan' in one ? plans[one.plan]!.id : ''
      switch (one.call) {
        case 'issue': {
          const fields = { idempotencyKey: `key ${one.key}`, body: `body ${one.body}`, planId }
          const externalRef = `customer of ${one.key}`
          const expected = model.issue(fields.idempotencyKey, fields.body, planId)
          return compare(
            expected,
            issue(within, { ...fields, externalRef }).then((answer) => answer.licence!),
          )
        }
        case 'import':
          return compare(
            model.import(`legacy ${one.key}`, planId),
            importOne(within, `legacy ${one.key}`, planId),
          )
        case 'pay': {
          const externalRef = `customer ${one.customer}`
          // A payment is one customer's, on one plan.
          const paymentRef = `payment ${one.payment} ${externalRef}`
          const payment = {
            planId,
            externalRef,
            paymentRef,
            ...(one.days !== null && { expiresOn: modelDay(one.days) }),
          }
          const expected = model.pay(paymentRef, externalRef, planId, one.days ?? undefined)
          return compare(
            expected,
            provision(within, payment).then((answer) => answer.licence!),
          )
        }
        case 'verb': {
          const found = pick(one.licence)
          return found && compare(model.verb(one.verb, found.licence), callVerb(within, one.verb, found.real))
        }
        case 'consequence': {
          const found = pick(one.licence)
          const cause = `cause ${one.cause}`
          // By the processor's clock it counts once a renewal shows that the purchase had not ended: orders.test.ts.
          if (one.name === 'an inquiry' && found && hasEnded(found.licence)) return
          return (
            found &&
            compare(
              model.consequence(one.name, found.licence, cause),
              draw(within, one.name, found.real, cause),
            )
          )
        }
        case 'renew': {
          const found = pick(one.licence)
          const cause = `cause ${one.cause}`
          return (
            found &&
            compare(
              model.renew(found.licence, cause, one.days),
              renew(within, found.real, modelDay(one.days), cause),
            )
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
      expect(await statusesAstray(within)).toEqual([])
      // What is still due must not meet the next run.
      await sweepExpiries(within.deps)
    },
  }
}

async function importOne(within: Harness, legacyKey: string, planId: string): Promise<Licence> {
  const { accountId, applicationId } = within
  const items = [{ legacyKey, externalRef: `customer of ${legacyKey}`, planId }]
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

type Consequence = Extract<Call, { call: 'consequence' }>['name']

function draw(within: Harness, name: Consequence, licence: { id: string }, cause: string): Promise<Licence> {
  const request = causeOn(within, licence, cause)
  switch (name) {
    case 'failed payments':
      return suspendFor(within, licence, 'payment_failed', cause)
    case 'an inquiry':
      return suspendFor(within, licence, 'dispute_inquiry', cause)
    case 'an inquiry that closes':
      return within.licensing.resumeFromInquiry(request)
    case 'a full refund':
      return within.licensing.revokeForRefund(request)
    case 'a partial refund':
      return within.licensing.downgradeForRefund(request)
    case 'a cancelled subscription':
      return within.licensing.expireLicence(request)
  }
}

function hasEnded({ restsOn: { endsIn } }: ModelLicence): boolean {
  return endsIn !== undefined && endsIn <= 0
}
