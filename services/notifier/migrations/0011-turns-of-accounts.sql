-- Accounts take turns when a sender looks for due deliveries.
alter table waiting_endpoints add column account_id text collate "C";
update waiting_endpoints w set account_id = e.account_id from endpoints e where e.id = w.endpoint_id;
delete from waiting_endpoints where account_id is null;
alter table waiting_endpoints alter column account_id set not null;

-- The generation of the secret that an alert reported as unreadable.
alter table endpoints add column unreadable_reported bigint;

-- The endpoint answered 410 Gone after its last success.
alter table endpoint_tallies add column is_gone boolean not null default false;
