-- Sales of releases before 0005 that no later release has made purchases: one was skipped, or did not run for long.
update fulfilments set former = false, due_at = least(due_at, clock_timestamp()) where former;

-- A longer id is not a name that licensing takes.
insert into fulfilments (purchase_ref, account_id, carry_at, ordered_at)
select id, account_id, clock_timestamp(), occurred_at from sale_events
where not sent_as_purchase and status = 'provisioned' and char_length(sale_id) <= 250
on conflict do nothing;
insert into purchase_effects (purchase_ref, effect_key, account_id, application_id, kind, cause, at, ordered_at, plan_id,
  external_ref, ends_at)
select id, 'landed', account_id, application_id, 'landed', 'sale:' || sale_id, occurred_at, occurred_at, plan_id,
  external_ref, expires_on
from sale_events where not sent_as_purchase and status = 'provisioned' and char_length(sale_id) <= 250
on conflict do nothing;
update sale_events set sent_as_purchase = true
where not sent_as_purchase and status = 'provisioned' and char_length(sale_id) <= 250;
