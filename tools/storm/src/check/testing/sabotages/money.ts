import { first, remove, repeat, type Sabotage } from './sabotage.ts'

export const moneySabotages: Sabotage[] = [
  {
    what: 'a lost sale',
    change: ({ sales }) => void sales.shift(),
    rule: 'sales and checkouts match the answers',
  },
  {
    what: 'a lost checkout',
    change: ({ sessions }) => void sessions.shift(),
    rule: 'sales and checkouts match the answers',
  },
  {
    what: 'a payment that is not booked',
    change: ({ payments }) => void payments.shift(),
    rule: 'payments match the processor',
  },
  {
    what: 'a payment booked twice',
    change: ({ payments }) => repeat(payments, () => true, { id: 'pay_twin' }),
    rule: 'payments match the processor',
  },
  {
    what: 'a renewal that is not booked',
    change: ({ payments }) => remove(payments, ({ invoiceRef }) => invoiceRef === 'in_renewal'),
    rule: 'payments match the processor',
  },
  {
    what: 'a payment of another amount',
    change: ({ payments }) => void (payments[0]!.amount += 1),
    rule: 'payments match the processor',
  },
  {
    what: 'a paid checkout that was never provisioned',
    change: ({ sessions }) => void (sessions[0]!.status = 'open'),
    rule: 'payments match the processor',
  },
  {
    what: 'a payment that provisioned another licence than billing says',
    change: ({ provisions }) => void (provisions[0]!.licenceId = 'lic_1'),
    rule: 'licensing and billing agree',
  },
  {
    what: 'a payment that provisioned twice',
    change: ({ history }) => repeat(history, ({ type }) => type === 'created', { position: 1_000 }),
    rule: 'licensing and billing agree',
  },
  {
    what: 'a fee that was not charged',
    change: ({ fees }) => void fees.shift(),
    rule: 'the ledger is right',
  },
  {
    what: 'a fee charged twice',
    change: ({ fees }) => repeat(fees, ({ kind }) => kind === 'charge', { id: 'fee_twin' }),
    rule: 'the ledger is right',
  },
  {
    what: 'a credit that is missing after a full refund',
    change: ({ fees }) => remove(fees, ({ kind }) => kind === 'credit'),
    rule: 'the ledger is right',
  },
  {
    what: 'a credit given twice',
    change: ({ fees }) => repeat(fees, ({ kind }) => kind === 'credit', { id: 'fee_twin' }),
    rule: 'the ledger is right',
  },
  {
    what: 'a refund that is not booked',
    change: ({ refunds }) => void refunds.shift(),
    rule: 'refunds match the processor',
  },
  {
    what: 'a refund without a consequence',
    change: ({ refunds }) => void (refunds[0]!.processed = false),
    rule: 'refunds match the processor',
  },
  {
    what: 'a refund booked twice',
    change: ({ refunds }) => repeat(refunds, () => true, { id: 'rfd_twin' }),
    rule: 'refunds match the processor',
  },
  {
    what: 'a refunded licence that still works',
    change: ({ licences, sessions }) =>
      void (first(licences, ({ id }) => id === sessions[0]!.licenceId).status = 'active'),
    rule: 'a licence follows its payment',
  },
  {
    what: 'a charged back licence that still works',
    change: ({ licences, sessions }) =>
      void (first(licences, ({ id }) => id === sessions[2]!.licenceId).status = 'active'),
    rule: 'a licence follows its payment',
  },
  {
    what: 'a licence that outlives its subscription',
    change: ({ licences, sessions }) =>
      void (first(licences, ({ id }) => id === sessions[3]!.licenceId).status = 'active'),
    rule: 'a licence follows its payment',
  },
]

export const figureSabotages: Sabotage[] = [
  {
    what: 'a counter that is off by one',
    change: ({ counters }) => void (counters[0]!.kept += 1),
    rule: 'counters match the counted rows',
  },
  {
    what: 'a plan that miscounts its licences',
    change: ({ plans }) => void (plans[0]!.activeLicences -= 1),
    rule: 'plans count their active licences',
  },
  {
    what: 'an event left in an outbox',
    change: ({ leftovers }) => void (leftovers[0]!.count = 1),
    rule: 'nothing is left over',
  },
  {
    what: 'a consumer that is behind',
    change: ({ lags }) => void (lags[0]!.behind = 1),
    rule: 'nothing is left over',
  },
  {
    what: 'a request of more than a minute',
    change: ({ sent }) => void (sent[0]!.from -= 60_000),
    rule: 'no request takes over a minute',
  },
  {
    what: 'a process that is ready late',
    change: ({ ready }) => void (ready[0]!.afterMs = 10_001),
    rule: 'ready within ten seconds, or as long as the first start took',
  },
  {
    what: 'a process that is ready late on a slow machine',
    change: (outcome) =>
      Object.assign(outcome, { startMs: 12_000, ready: [{ process: 'x', afterMs: 12_001 }] }),
    rule: 'ready within ten seconds, or as long as the first start took',
  },
  {
    what: 'a process that is never ready',
    change: ({ ready }) => void (ready[0]!.afterMs = null),
    rule: 'ready within ten seconds, or as long as the first start took',
  },
  {
    what: 'a process that ended by itself',
    change: ({ crashes }) => void crashes.push({ process: 'billing-1', at: 1 }),
    rule: 'no process ends by itself',
  },
]
