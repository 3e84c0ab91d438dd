-- Money by day of UTC and currency. Changes are noted in the transactions that make them and added up in the background,
-- in one statement, so that a reader of both tables sees each once.
create table payment_days (
  application_id text collate "C" not null,
  account_id text collate "C" not null,
  day date not null,
  currency text collate "C" not null,
  count bigint not null,
  gross_minor bigint not null,
  refunded_minor bigint not null,
  fee_minor bigint not null,
  primary key (application_id, day, currency)
);

create table payment_day_changes (
  application_id text collate "C" not null,
  account_id text collate "C" not null,
  day date not null,
  currency text collate "C" not null,
  count bigint not null default 0,
  gross_minor bigint not null default 0,
  refunded_minor bigint not null default 0,
  fee_minor bigint not null default 0
);
create index payment_day_changes_of on payment_day_changes (application_id);

create function payment_day(p payments) returns date language sql immutable
return (coalesce(p.charged_at, p.paid_at) at time zone 'UTC')::date;

-- Only a refund whose status is succeeded counts; a chargeback counts from its opening, whatever becomes of it.
create function refunded_minor(r refunds) returns bigint language sql immutable
return case when r.lane = 'chargeback' or r.status = 'succeeded' then r.amount else 0 end;

-- Its fees move with a payment whose time becomes known.
create function note_payment() returns trigger language plpgsql as $$
declare
  fees bigint := 0;
begin
  if tg_op = 'UPDATE' then
    select coalesce(sum(amount_minor), 0) into fees from fee_entries where payment_id = old.id;
    insert into payment_day_changes (application_id, account_id, day, currency, count, gross_minor, fee_minor)
    values (old.application_id, old.account_id, payment_day(old), old.currency, -1, -old.amount, -fees);
  end if;
  insert into payment_day_changes (application_id, account_id, day, currency, count, gross_minor, fee_minor)
  values (new.application_id, new.account_id, payment_day(new), new.currency, 1, new.amount, fees);
  return null;
end
$$;

create function note_refund() returns trigger language plpgsql as $$
begin
  if tg_op = 'UPDATE' and refunded_minor(old) <> 0 then
    insert into payment_day_changes (application_id, account_id, day, currency, refunded_minor)
    values (old.application_id, old.account_id, (old.occurred_at at time zone 'UTC')::date, old.currency,
      -refunded_minor(old));
  end if;
  if refunded_minor(new) <> 0 then
    insert into payment_day_changes (application_id, account_id, day, currency, refunded_minor)
    values (new.application_id, new.account_id, (new.occurred_at at time zone 'UTC')::date, new.currency,
      refunded_minor(new));
  end if;
  return null;
end
$$;

create function note_fee() returns trigger language plpgsql as $$
begin
  insert into payment_day_changes (application_id, account_id, day, currency, fee_minor)
  select p.application_id, p.account_id, payment_day(p), new.currency, new.amount_minor
  from payments p where p.id = new.payment_id;
  return null;
end
$$;

-- Each holds up other writers until this migration is committed, readers not: what they wrote is below, what they
-- will write is noted.
create trigger note_payment after insert on payments for each row execute function note_payment();
create trigger note_changed_payment after update on payments for each row
  when ((new.amount, new.currency, new.charged_at, new.paid_at)
    is distinct from (old.amount, old.currency, old.charged_at, old.paid_at))
  execute function note_payment();
create trigger note_refund after insert on refunds for each row execute function note_refund();
create trigger note_changed_refund after update on refunds for each row
  when ((new.amount, new.currency, new.lane, new.status, new.occurred_at)
    is distinct from (old.amount, old.currency, old.lane, old.status, old.occurred_at))
  execute function note_refund();
create trigger note_fee after insert on fee_entries for each row execute function note_fee();

insert into payment_days (application_id, account_id, day, currency, count, gross_minor, refunded_minor, fee_minor)
select application_id, account_id, day, currency, sum(count), sum(gross), sum(refunded), sum(fee)
from (
  select application_id, account_id, payment_day(p) as day, currency, 1 as count, amount as gross, 0 as refunded,
    0 as fee
  from payments p
  union all
  select application_id, account_id, (occurred_at at time zone 'UTC')::date, currency, 0, 0, refunded_minor(r), 0
  from refunds r
  union all
  select p.application_id, p.account_id, payment_day(p), f.currency, 0, 0, 0, f.amount_minor
  from fee_entries f join payments p on p.id = f.payment_id
) noted
group by application_id, account_id, day, currency;
