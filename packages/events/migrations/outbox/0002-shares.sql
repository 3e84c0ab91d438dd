-- An account that has very much to publish delays no other. Replicas of earlier releases leave the column empty.
alter table outbox add column account_id text collate "C" not null default '';
create index outbox_of_account on outbox (account_id, position);
