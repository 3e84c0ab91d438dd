import { create } from '@bufbuild/protobuf'
import { expect, test } from 'vitest'
import { EventSchema } from '../gen/events/v1/events_pb.ts'
import { eventName, toWebhook, webhookEventTypes } from './webhook-events.ts'

test('the types are those of the interface, the decisions and the additions', () => {
  expect([...webhookEventTypes].sort()).toEqual(
    [
      'licence.created',
      'licence.plan_changed',
      'licence.suspended',
      'licence.reactivated',
      'licence.revoked',
      'licence.expired',
      'licence.retired',
      'licence.downgraded',
      'licence.expiring',
      'licence.entitlements_changed',
      'licence.trial_started',
      'payment.succeeded',
      'payment.provision_failed',
      'refund.processed',
      'spend_cap.reached',
      'webhook.test',
    ].sort(),
  )
})

test('a reason that is not set is left out', () => {
  const value = { licenceId: 'lic_1', status: 'suspended' }
  const without = create(EventSchema, { payload: { case: 'licenceSuspended', value } })
  expect(toWebhook(without)).toEqual({
    type: 'licence.suspended',
    object: { licence_id: 'lic_1', status: 'suspended' },
    previous: null,
  })
  const reason = create(EventSchema, {
    payload: { case: 'licenceSuspended', value: { ...value, reason: 'plan_archived' } },
  })
  expect(toWebhook(reason)?.object).toEqual({
    licence_id: 'lic_1',
    status: 'suspended',
    reason: 'plan_archived',
  })
})

test('the former plan is in the envelope’s previous, not in the object', () => {
  const event = create(EventSchema, {
    payload: {
      case: 'licencePlanChanged',
      value: { licenceId: 'lic_1', planId: 'pln_2', status: 'active', previous: { planId: 'pln_1' } },
    },
  })
  expect(toWebhook(event)).toEqual({
    type: 'licence.plan_changed',
    object: { licence_id: 'lic_1', plan_id: 'pln_2', status: 'active' },
    previous: { plan_id: 'pln_1' },
  })
  expect(eventName(event)).toBe('licence_plan_changed')
})

test('an amount is a number, also if it is zero', () => {
  const event = create(EventSchema, {
    payload: { case: 'paymentSucceeded', value: { licenceId: 'lic_1', amount: 0n, currency: 'usd' } },
  })
  expect(toWebhook(event)?.object).toEqual({ licence_id: 'lic_1', amount: 0, currency: 'usd' })
})

test('an event without a webhook type is not sent to the vendor', () => {
  expect(toWebhook(create(EventSchema, { payload: { case: 'planCopyChanged', value: {} } }))).toBeNull()
})
