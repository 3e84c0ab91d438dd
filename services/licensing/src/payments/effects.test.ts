import { expect, test } from 'vitest'
import { licenceStatuses } from '../licences/licence.ts'
import { afterPayment, afterRenewal } from './effects.ts'
import type { Standing } from './effects.ts'

const now = new Date('2030-06-15T00:00:00Z')
const past = new Date('2030-06-01T00:00:00Z')
const soon = new Date('2030-07-01T00:00:00Z')
const later = new Date('2030-08-01T00:00:00Z')

const standing = (fields: Partial<Standing> = {}): Standing => ({
  status: 'active',
  reason: null,
  expiresOn: soon,
  expiredFrom: null,
  expiredFromReason: null,
  ...fields,
})
const suspendedFor = (reason: string, fields: Partial<Standing> = {}) =>
  standing({ status: 'suspended', reason, ...fields })
const swept = (fields: Partial<Standing> = {}) =>
  standing({ status: 'expired', expiredFrom: 'active', expiresOn: past, ...fields })

test('a payment makes a licence work again that was expired, downgraded or suspended for failed payments', () => {
  for (const before of [
    swept(),
    standing({ status: 'expired' }),
    standing({ status: 'downgraded' }),
    suspendedFor('payment_failed'),
    standing(),
  ]) {
    expect(afterPayment(before, later)).toEqual(standing({ expiresOn: later }))
  }
})

test.each(['manual', 'plan_archived', 'dispute_inquiry'])(
  'a payment leaves a licence suspended whose reason is %s, and its expiry follows all the same',
  (reason) => {
    expect(afterPayment(suspendedFor(reason), later)).toEqual(suspendedFor(reason, { expiresOn: later }))
    expect(afterPayment(suspendedFor(reason), null).expiresOn).toBeNull()
  },
)

test('a renewal moves the expiry and nothing else', () => {
  for (const before of [standing(), suspendedFor('manual'), standing({ status: 'downgraded' })]) {
    expect(afterRenewal(before, later, now, true)).toEqual({
      licence: { ...before, expiresOn: later },
      history: [{ type: 'renewed', from: before.status, to: before.status }],
    })
  }
})

test('an invoice that arrives late moves no expiry back, nor makes one where there is none', () => {
  expect(afterRenewal(standing({ expiresOn: later }), soon, now, true)).toBeUndefined()
  expect(afterRenewal(standing({ expiresOn: null }), soon, now, true)).toBeUndefined()
})

test('a renewal does nothing to a licence that is revoked or retired', () => {
  expect(afterRenewal(standing({ status: 'revoked' }), later, now, true)).toBeUndefined()
  expect(afterRenewal(standing({ status: 'retired' }), later, now, true)).toBeUndefined()
})

test('a renewal reactivates where payments had failed', () => {
  expect(afterRenewal(suspendedFor('payment_failed'), later, now, true)).toEqual({
    licence: standing({ expiresOn: later }),
    history: [
      { type: 'renewed', from: 'suspended', to: 'suspended' },
      { type: 'reactivated', from: 'suspended', to: 'active' },
    ],
    emits: 'licenceReactivated',
  })
})

test('a renewal takes the sweep’s expiry back and says nothing, for an invoice is paid after the period’s end', () => {
  expect(afterRenewal(swept(), later, now, true)).toEqual({
    licence: standing({ expiresOn: later }),
    history: [{ type: 'renewed', from: 'expired', to: 'active' }],
  })
  const manual = afterRenewal(
    swept({ expiredFrom: 'suspended', expiredFromReason: 'manual' }),
    later,
    now,
    true,
  )
  expect(manual?.licence).toEqual(suspendedFor('manual', { expiresOn: later }))
  const failed = swept({ expiredFrom: 'suspended', expiredFromReason: 'payment_failed' })
  expect(afterRenewal(failed, later, now, true)).toMatchObject({
    licence: standing({ expiresOn: later }),
    emits: 'licenceReactivated',
  })
})

test('a renewal of a period that is over, too, leaves a licence expired', () => {
  const between = new Date('2030-06-10T00:00:00Z')
  expect(afterRenewal(swept(), between, now, true)).toEqual({
    licence: swept({ expiresOn: between }),
    history: [{ type: 'renewed', from: 'expired', to: 'expired' }],
  })
})

test('a cancelled subscription stays expired, whatever invoice arrives after', () => {
  const cancelled = standing({ status: 'expired' })
  expect(afterRenewal(cancelled, later, now, true)?.licence.status).toBe('expired')
})

test('no renewal makes a licence active on a retired plan', () => {
  const befores = licenceStatuses.flatMap((status) => [
    standing({ status }),
    suspendedFor('payment_failed'),
    swept(),
    swept({ expiredFrom: 'suspended', expiredFromReason: 'payment_failed' }),
  ])
  for (const before of befores.filter((one) => one.status !== 'active')) {
    expect(afterRenewal(before, later, now, false)?.licence.status ?? before.status).not.toBe('active')
  }
  expect(afterRenewal(swept(), later, now, false)).toMatchObject({
    licence: suspendedFor('plan_archived', { expiresOn: later }),
    emits: 'licenceSuspended',
  })
  expect(afterRenewal(suspendedFor('payment_failed'), later, now, false)).not.toHaveProperty('emits')
})
