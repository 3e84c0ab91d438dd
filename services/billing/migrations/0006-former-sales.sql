-- By itself, after events are worked on by this release alone: it reads much, and holds no lock that others wait for.

-- What earlier releases recorded, as facts.
insert into facts (merchant, source_key, session_id, refs, body)
select merchant, 'former:checkout:' || id, id,
  array_remove(array[checkout_ref, payment_ref, invoice_ref, subscription_ref], null),
  jsonb_strip_nulls(jsonb_build_object(
    'kind', 'checkout', 'checkoutRef', coalesce(checkout_ref, id),
    'state', (array['unpaid', 'expired', 'failed', 'paid'])[payment_state], 'sessionId', id,
    'amount', paid_amount, 'currency', nullif(paid_currency, ''), 'paymentRef', payment_ref, 'invoiceRef', invoice_ref,
    'subscriptionRef', subscription_ref,
    'at', (extract(epoch from coalesce(paid_at, created_at)) * 1000)::bigint))
from checkout_sessions where payment_state > 0;

insert into facts (merchant, source_key, session_id, refs, body)
select merchant, 'former:period:' || id, id, array[subscription_ref],
  jsonb_build_object('kind', 'subscription', 'subscriptionRef', subscription_ref,
    'periodEnd', (extract(epoch from period_end) * 1000)::bigint)
from checkout_sessions where period_end is not null and subscription_ref is not null;

insert into purchase_links (merchant, ref, session_id)
select merchant, ref, min(session_id) from (
  select merchant, checkout_ref as ref, id as session_id from checkout_sessions
  union all select merchant, payment_ref, id from checkout_sessions
  union all select merchant, invoice_ref, id from checkout_sessions
  union all select merchant, subscription_ref, id from checkout_sessions
  union all select merchant, payment_ref, session_id from payments where session_id is not null
  union all select merchant, charge_ref, session_id from payments where session_id is not null
  union all
  select i.merchant, unnest(array[i.invoice_ref, i.payment_ref]), s.id
  from invoice_facts i join checkout_sessions s on s.merchant = i.merchant and s.subscription_ref = i.subscription_ref
) link where ref is not null group by merchant, ref;

insert into purchase_links (merchant, ref, session_id)
select c.merchant, c.charge_ref, l.session_id
from charge_facts c join purchase_links l on l.merchant = c.merchant and l.ref = c.payment_ref
on conflict do nothing;

insert into facts (merchant, source_key, session_id, refs, body)
select f.merchant, 'former:' || f.key, l.session_id, array_remove(array[f.ref, f.other_ref], null),
  jsonb_strip_nulls(f.body)
from (
  select merchant, 'charge:' || charge_ref as key, coalesce(payment_ref, charge_ref) as ref, charge_ref as other_ref,
    jsonb_build_object('kind', 'charge', 'chargeRef', charge_ref, 'paymentRef', payment_ref, 'amount', amount,
      'currency', currency, 'chargedAt', (extract(epoch from charged_at) * 1000)::bigint, 'refunded', refunded,
      'reportedAt', (extract(epoch from charged_at) * 1000)::bigint) as body
  from charge_facts where amount is not null and charged_at is not null
  union all
  select merchant, 'refund:' || refund_ref, payment_ref, charge_ref,
    jsonb_build_object('kind', 'refund', 'refundRef', refund_ref, 'chargeRef', charge_ref,
      'paymentRef', payment_ref, 'amount', amount, 'currency', currency,
      'createdAt', (extract(epoch from created_at) * 1000)::bigint, 'status', 'succeeded', 'hadSucceeded', false,
      'reportedAt', (extract(epoch from coalesce(succeeded_at, created_at)) * 1000)::bigint)
  from refund_facts where succeeded and not derived
  union all
  select merchant, 'refund-status:' || refund_ref, payment_ref, charge_ref,
    jsonb_build_object('kind', 'refund', 'refundRef', refund_ref, 'chargeRef', charge_ref,
      'paymentRef', payment_ref, 'amount', amount, 'currency', currency,
      'createdAt', (extract(epoch from created_at) * 1000)::bigint, 'status', status, 'hadSucceeded', succeeded,
      'reportedAt', (extract(epoch from coalesce(failed_at, created_at)) * 1000)::bigint)
  from refund_facts where status <> 'succeeded' and not derived
  union all
  select merchant, 'dispute:' || dispute_ref || ':' || stage, payment_ref, charge_ref,
    jsonb_build_object('kind', 'dispute', 'disputeRef', dispute_ref, 'chargeRef', charge_ref,
      'paymentRef', payment_ref, 'amount', amount, 'currency', currency,
      'openedAt', (extract(epoch from opened_at) * 1000)::bigint, 'stage', stage, 'status', status,
      'wasInquiry', inquiry, 'opening', true, 'reportedAt', (extract(epoch from coalesce(
        case stage when 'chargeback' then chargeback_at when 'inquiry_closed' then inquiry_closed_at end, opened_at
      )) * 1000)::bigint)
  from dispute_facts cross join unnest(array['inquiry', 'inquiry_closed', 'chargeback']) as stage
  where (stage = 'inquiry' and inquiry) or (stage = 'inquiry_closed' and inquiry_closed)
    or (stage = 'chargeback' and chargeback)
  union all
  select merchant, 'invoice:' || invoice_ref, subscription_ref, invoice_ref,
    jsonb_build_object('kind', 'invoice_paid', 'invoiceRef', invoice_ref, 'subscriptionRef', subscription_ref,
      'reason', case when first then 'first' else 'cycle' end, 'amount', amount, 'currency', currency,
      'periodEnd', (extract(epoch from period_end) * 1000)::bigint,
      'paidAt', (extract(epoch from paid_at) * 1000)::bigint)
  from invoice_facts
  union all
  select merchant, 'invoice-payment:' || invoice_ref, payment_ref, invoice_ref,
    jsonb_build_object('kind', 'invoice_payment', 'invoiceRef', invoice_ref, 'paymentRef', payment_ref)
  from invoice_facts where payment_ref is not null
  union all
  select merchant, 'failure:' || invoice_ref || ':' || attempt, subscription_ref, invoice_ref,
    jsonb_build_object('kind', 'invoice_failed', 'invoiceRef', invoice_ref, 'subscriptionRef', subscription_ref,
      'attempt', attempt, 'at', (extract(epoch from failed_at) * 1000)::bigint)
  from invoice_failures
  union all
  select merchant, 'ended:' || subscription_ref, subscription_ref, null,
    jsonb_build_object('kind', 'subscription_ended', 'subscriptionRef', subscription_ref,
      'endedAt', (extract(epoch from ended_at) * 1000)::bigint, 'paymentsFailed', false)
  from subscription_ends
) f left join purchase_links l on l.merchant = f.merchant and l.ref = f.ref;

-- What earlier releases have done is not done again; `landed` is sent once, so that licensing knows the purchase.
insert into purchase_effects (purchase_ref, effect_key, account_id, application_id, cause, at, ordered_at, state, done_at)
select e.purchase_ref, e.effect_key, s.account_id, s.application_id, '', now(), now(), 'done', now()
from (
  select p.session_id as purchase_ref, 'refund:' || r.id as effect_key
  from refunds r join payments p on p.id = r.payment_id where r.processed
  union all select session_id, 'renewed:' || invoice_ref from payments where renewed
  union all select id, 'failed:' || suspended_streak from checkout_sessions where suspended_streak is not null
  union all select id, 'cancelled' from checkout_sessions where subscription_ended
  union all
  select s.id, 'inquiry:' || d.dispute_ref from dispute_facts d
  join purchase_links l on l.merchant = d.merchant and l.ref = d.payment_ref
  join checkout_sessions s on s.id = l.session_id where d.suspended
  union all
  select s.id, 'inquiry_closed:' || d.dispute_ref from dispute_facts d
  join purchase_links l on l.merchant = d.merchant and l.ref = d.payment_ref
  join checkout_sessions s on s.id = l.session_id where d.resumed
) e join checkout_sessions s on s.id = e.purchase_ref
on conflict do nothing;

insert into fulfilments (purchase_ref, account_id, former)
select id, account_id, true from checkout_sessions where payment_state > 0;
