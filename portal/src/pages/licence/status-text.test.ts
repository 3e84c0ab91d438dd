import { expect, test } from 'vitest'
import type { HistoryEntry, LicenceDetail } from '../../api/licences.ts'
import { statusText } from './status-text.ts'

type Licence = Parameters<typeof statusText>[0]['licence']

const licence = (status: Licence['status'], fields: Partial<Licence> = {}): Licence => ({
  status,
  status_reason: null,
  expires_on: '2027-01-31T10:00:00.000Z',
  trial: false,
  allowed: ['reactivate'],
  ...fields,
})

const suspendedFor = (reason: LicenceDetail['status_reason'], fields: Partial<Licence> = {}) =>
  licence('suspended', { status_reason: reason, ...fields })

const key = 'key_1'

// One row for each state and cause: the licence, the type and the actor of the entry that set its state, and the sentence.
const sentences: readonly (readonly [Licence, HistoryEntry['type'], string, string])[] = [
  [
    licence('active'),
    'issued',
    key,
    'Active since 3 May 2026, when Ada issued it. It expires on 31 Jan 2027 unless it is renewed or extended.',
  ],
  [
    licence('active', { expires_on: null }),
    'created',
    'processor',
    'Active since 3 May 2026, when the customer paid for it. It never expires: there is nothing to do.',
  ],
  [
    licence('active', { expires_on: null }),
    'imported',
    key,
    'Active since 3 May 2026, when Ada imported it. It never expires: there is nothing to do.',
  ],
  [
    licence('active', { expires_on: null }),
    'reactivated',
    key,
    'Active since 3 May 2026, when Ada reactivated it. It never expires: there is nothing to do.',
  ],
  [
    licence('active', { expires_on: null }),
    'reactivated',
    'processor',
    'Active since 3 May 2026, when its payment problem was solved. It never expires: there is nothing to do.',
  ],
  [
    licence('active'),
    'plan_changed',
    'processor',
    'Active since 3 May 2026, when the customer paid. It expires on 31 Jan 2027 unless it is renewed or extended.',
  ],
  [
    licence('active'),
    'renewed',
    'processor',
    'Active since 3 May 2026, when the customer paid. It expires on 31 Jan 2027 unless it is renewed or extended.',
  ],
  [
    licence('active', { trial: true }),
    'trial_started',
    'product',
    'Active trial since 3 May 2026, when a product started it as a trial. It ends on 31 Jan 2027. When the customer buys, change its customer reference.',
  ],
  [
    suspendedFor('manual'),
    'suspended',
    key,
    'Suspended since 3 May 2026 because Ada suspended it. It becomes active when somebody reactivates it.',
  ],
  [
    suspendedFor('manual', { allowed: [] }),
    'suspended',
    key,
    'Suspended since 3 May 2026 because Ada suspended it. Restore its plan, then reactivate it.',
  ],
  [
    suspendedFor('plan_archived', { allowed: [] }),
    'suspended',
    key,
    'Suspended since 3 May 2026 because its plan was archived. Restore its plan, then reactivate it.',
  ],
  [
    suspendedFor('plan_archived'),
    'suspended',
    'catalog',
    'Suspended since 3 May 2026 because its plan was archived. It becomes active when somebody reactivates it.',
  ],
  [
    suspendedFor('payment_failed'),
    'suspended',
    'processor',
    'Suspended since 3 May 2026 because payments for its subscription failed. It becomes active when the customer pays.',
  ],
  [
    suspendedFor('dispute_inquiry'),
    'suspended',
    'processor',
    'Suspended since 3 May 2026 because the customer’s bank asks about a payment. It becomes active when the inquiry is closed: answer it at the payment processor.',
  ],
  [
    licence('expired'),
    'expired',
    'sweep',
    'Expired since 3 May 2026 because its end passed. It becomes active when the customer pays, or when it is extended.',
  ],
  [
    licence('expired'),
    'expired',
    'processor',
    'Expired since 3 May 2026 because its subscription ended. It becomes active when the customer pays, or when it is extended.',
  ],
  [
    licence('expired', { trial: true }),
    'expired',
    'sweep',
    'Expired trial since 3 May 2026 because the time of the trial is over. When the customer buys, change its customer reference and extend it.',
  ],
  [
    licence('downgraded'),
    'downgraded',
    'processor',
    'Downgraded since 3 May 2026 because a part of its payment was refunded. Products have the default values until the customer pays again.',
  ],
  [
    licence('revoked'),
    'revoked',
    key,
    'Revoked since 3 May 2026 because Ada revoked it. That is permanent: if the customer is to have a licence, issue another one.',
  ],
  [
    licence('revoked'),
    'revoked',
    'processor',
    'Revoked since 3 May 2026 because its payment was refunded or charged back. That is permanent: if the customer is to have a licence, issue another one.',
  ],
  [
    licence('retired'),
    'retired',
    key,
    'Retired since 3 May 2026 because Ada retired it. It is permanently out of use: if the customer is to have a licence, issue another one.',
  ],
]

test.each(sentences)(
  'a sentence says state, time, cause and what to do: %#',
  (one, type, actor, sentence) => {
    const entry = {
      at: '2026-05-03T23:00:00.000Z',
      type,
      from: null,
      to: one.status,
      actor,
      actor_name: null,
      cause: null,
      changes: null,
    }
    expect(statusText({ licence: one, entry, who: 'Ada' })).toBe(sentence)
  },
)

test('if the entry that set the status is not known, the sentence leaves out time and cause', () => {
  const before: HistoryEntry = {
    at: '2026-05-03T23:00:00.000Z',
    type: 'issued',
    from: null,
    to: 'active',
    actor: key,
    actor_name: 'Ada',
    cause: null,
    changes: null,
  }
  for (const entry of [null, before]) {
    expect(statusText({ licence: suspendedFor('payment_failed'), entry, who: 'Ada' })).toBe(
      'Suspended. It becomes active when the customer pays.',
    )
  }
})
