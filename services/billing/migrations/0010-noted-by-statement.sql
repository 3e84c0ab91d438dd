-- Payments and fees of a batch are noted by one statement, not row by row: a third of what noting cost.
create function note_payments() returns trigger language plpgsql as $$
begin
  insert into payment_day_changes (application_id, account_id, day, currency, count, gross_minor)
  select application_id, account_id, (coalesce(charged_at, paid_at) at time zone 'UTC')::date, currency, count(*),
    sum(amount)
  from added group by 1, 2, 3, 4;
  return null;
end
$$;

create function note_fees() returns trigger language plpgsql as $$
begin
  insert into payment_day_changes (application_id, account_id, day, currency, fee_minor)
  select p.application_id, p.account_id, payment_day(p), f.currency, sum(f.amount_minor)
  from added f join payments p on p.id = f.payment_id group by 1, 2, 3, 4;
  return null;
end
$$;

-- A payment that is changed is noted by itself, as before.
drop trigger note_payment on payments;
create trigger note_payment after insert on payments referencing new table as added
  for each statement execute function note_payments();
drop trigger note_fee on fee_entries;
create trigger note_fee after insert on fee_entries referencing new table as added
  for each statement execute function note_fees();
drop function note_fee();
