alter table alerts
  add column kind text check (kind in ('endpoint_failing', 'endpoint_disabled', 'refund_reversed',
    'processor_event_parked', 'processor_events_missed', 'processor_disconnected', 'renewal_without_licence')),
  -- Null where the alert is about the account as a whole.
  add column application_id text collate "C",
  add column endpoint_id text collate "C",
  -- sent_at: nothing is left to be done, also where there is no address.
  add column mailed_at timestamptz;

-- Billing and notifiers of earlier releases write alerts without a kind.
create function say_alert_kind() returns trigger language plpgsql as $$
begin
  new.kind := case
    when new.subject like 'Webhook endpoint disabled%' then 'endpoint_disabled'
    when new.subject like 'A refund failed%' then 'refund_reversed'
    when new.subject like 'The payment processor was disconnected%' then 'processor_disconnected'
    else 'processor_event_parked'
  end;
  if new.kind = 'endpoint_disabled' then
    new.endpoint_id := substring(new.text from 'whe_[0-9a-z]{26}');
    new.application_id := (select application_id from endpoints where id = new.endpoint_id);
  end if;
  return new;
end $$;
create trigger say_alert_kind before insert or update of subject on alerts
  for each row when (new.kind is null) execute function say_alert_kind();
update alerts set subject = subject;
alter table alerts alter column kind set not null;

create index alerts_page on alerts (account_id, id);
create index alerts_of_application on alerts (application_id, id) where application_id is not null;
