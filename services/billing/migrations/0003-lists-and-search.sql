-- What the vendor's lists are filtered by, and what a search finds a sale by.
create index payments_by_time on payments (application_id, (coalesce(charged_at, paid_at)));
create index payments_by_licence on payments (licence_id, id) where licence_id is not null;
-- As lists and events show it.
create index payments_by_charge on payments (application_id, (coalesce(charge_ref, payment_ref, id)));
create index refunds_by_time on refunds (application_id, occurred_at);
create index checkout_sessions_newest on checkout_sessions (application_id, id, created_at);
create index checkout_sessions_by_status on checkout_sessions (application_id, status, id);
create index checkout_sessions_by_customer on checkout_sessions (application_id, external_ref, id);
create index sale_events_newest on sale_events (application_id, id, occurred_at);
create index sale_events_by_status on sale_events (application_id, status, id);

-- Why a sale could not be provisioned; null where it was, and where an earlier release did not keep it.
alter table sale_events add column failure_reason text;
