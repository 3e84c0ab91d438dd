import type { Transaction } from '@licensing/database/connect'
import type { Decision } from './decision.ts'
import type { History } from './history.ts'
import { jsonRows } from '../json-rows.ts'

export interface Decided {
  history: History
  decision: Decision
}

/** Payments before refunds and ledger entries, which refer to them. */
export async function writePayments(tx: Transaction, decided: Decided[]): Promise<void> {
  const rows = decided.flatMap(({ decision }) =>
    decision.payments.map((payment) => ({
      ...payment,
      source_key:
        payment.invoice_ref === null
          ? `checkout:${payment.session_id}`
          : `invoice:${payment.session_id}:${payment.invoice_ref}`,
    })),
  )
  if (rows.length === 0) return
  await tx`
    insert into payments as p (id, account_id, application_id, source_key, session_id, invoice_ref, plan_id,
      external_ref, amount, currency, fee_minor, licence_id, paid_at, merchant, payment_ref, charge_ref, charged_at,
      charge_state, period_end)
    select id, account_id, application_id, source_key, session_id, invoice_ref, plan_id, external_ref, amount,
      currency, fee_minor, licence_id, paid_at, merchant, payment_ref, charge_ref, charged_at, charge_state, period_end
    from jsonb_to_recordset(${jsonRows(rows)}::text::jsonb) as r (id text, account_id text, application_id text,
      source_key text, session_id text, invoice_ref text, plan_id text, external_ref text, amount bigint,
      currency text, fee_minor bigint, licence_id text, paid_at timestamptz, merchant text, payment_ref text,
      charge_ref text, charged_at timestamptz, charge_state text, period_end timestamptz)
    on conflict (id) do update set amount = excluded.amount, currency = excluded.currency,
      fee_minor = excluded.fee_minor, payment_ref = excluded.payment_ref, charge_ref = excluded.charge_ref,
      charged_at = excluded.charged_at, charge_state = excluded.charge_state, period_end = excluded.period_end`
}

export async function writeRefunds(tx: Transaction, decided: Decided[]): Promise<void> {
  const rows = decided.flatMap(({ history: { session }, decision }) =>
    decision.refunds.map((refund) => ({
      ...refund,
      account_id: session.account_id,
      application_id: session.application_id,
      merchant: session.merchant,
    })),
  )
  if (rows.length === 0) return
  await tx`
    insert into refunds (id, account_id, application_id, payment_id, merchant, ref, amount, currency, lane, status,
      occurred_at, processed, alerted)
    select id, account_id, application_id, payment_id, merchant, ref, amount, currency, lane, status, occurred_at,
      processed, alerted
    from jsonb_to_recordset(${jsonRows(rows)}::text::jsonb) as r (id text, account_id text, application_id text,
      payment_id text, merchant text, ref text, amount bigint, currency text, lane text, status text,
      occurred_at timestamptz, processed boolean, alerted boolean)
    on conflict (id) do update set ref = excluded.ref, status = excluded.status, lane = excluded.lane,
      occurred_at = excluded.occurred_at, alerted = excluded.alerted`
}

export async function writeEffects(tx: Transaction, decided: Decided[]): Promise<void> {
  const rows = decided.flatMap(({ history: { session }, decision }) =>
    decision.effects.map((effect) => ({
      ...effect,
      purchase_ref: session.id,
      account_id: session.account_id,
      application_id: session.application_id,
    })),
  )
  if (rows.length === 0) return
  await tx`
    insert into purchase_effects (purchase_ref, effect_key, account_id, application_id, kind, cause, at, ordered_at,
      plan_id, external_ref, ends_at, charged_back, refund_id, state)
    select purchase_ref, effect_key, account_id, application_id, kind, cause, at, ordered_at, plan_id, external_ref,
      ends_at, charged_back, refund_id, state
    from jsonb_to_recordset(${jsonRows(rows)}::text::jsonb) as r (purchase_ref text, effect_key text,
      account_id text, application_id text, kind text, cause text, at timestamptz, ordered_at timestamptz,
      plan_id text, external_ref text, ends_at timestamptz, charged_back boolean, refund_id text, state text)
    on conflict (purchase_ref, effect_key) do nothing`
}

export async function writeQuestions(tx: Transaction, decided: Decided[]): Promise<void> {
  const rows = decided.flatMap(({ history: { session }, decision }) =>
    decision.questions.map(({ kind, ref, at }) => ({
      purchase_ref: session.id,
      kind,
      ref,
      account_id: session.account_id,
      merchant: session.merchant,
      next_at: at,
    })),
  )
  if (rows.length === 0) return
  await tx`
    insert into processor_questions (purchase_ref, kind, ref, account_id, merchant, next_at)
    select purchase_ref, kind, ref, account_id, merchant, next_at
    from jsonb_to_recordset(${jsonRows(rows)}::text::jsonb) as r (purchase_ref text, kind text, ref text,
      account_id text, merchant text, next_at timestamptz)
    on conflict (purchase_ref, kind, ref) do nothing`
}

export async function writeSessions(tx: Transaction, decided: Decided[]): Promise<void> {
  const rows = decided
    .filter(({ decision }) => Object.keys(decision.session).length > 0)
    .map(({ history, decision }) => ({ ...decision.session, id: history.session.id }))
  if (rows.length === 0) return
  await tx`
    update checkout_sessions s set status = coalesce(r.status, s.status),
      payment_state = coalesce(r.payment_state, s.payment_state), paid_at = coalesce(r.paid_at, s.paid_at),
      paid_amount = coalesce(r.paid_amount, s.paid_amount), paid_currency = coalesce(r.paid_currency, s.paid_currency),
      payment_ref = coalesce(r.payment_ref, s.payment_ref), invoice_ref = coalesce(r.invoice_ref, s.invoice_ref),
      subscription_ref = coalesce(r.subscription_ref, s.subscription_ref)
    from jsonb_to_recordset(${jsonRows(rows)}::text::jsonb) as r (id text, status text, payment_state smallint,
      paid_at timestamptz, paid_amount bigint, paid_currency text, payment_ref text, invoice_ref text,
      subscription_ref text)
    where s.id = r.id`
}

/** When each is looked at again, and whether it has effects to carry out. */
export async function writeFulfilments(tx: Transaction, decided: Decided[]): Promise<void> {
  const rows = decided.map(({ history, decision }) => ({
    purchase_ref: history.session.id,
    due_at: decision.next ?? null,
    carries: decision.effects.some((effect) => effect.state === 'waiting'),
    ordered_at: decision.effects.at(-1)?.ordered_at ?? null,
  }))
  await tx`
    update fulfilments f set due_at = r.due_at, attempts = 0, ordered_at = coalesce(r.ordered_at, f.ordered_at),
      carry_at = case when r.carries then least(f.carry_at, clock_timestamp()) else f.carry_at end
    from jsonb_to_recordset(${jsonRows(rows)}::text::jsonb) as r (purchase_ref text, due_at timestamptz,
      carries boolean, ordered_at timestamptz)
    where f.purchase_ref = r.purchase_ref`
}
