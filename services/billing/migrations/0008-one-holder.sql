-- A connected account belongs to one vendor account at a time. Connections that exist count as proven. Where several
-- accounts had connected the same one, it stays with the account that sold through it last, else with the first.
update processor_connections c set disconnected_at = now()
from (
  select h.account_id, h.merchant, row_number() over (
    partition by h.merchant
    order by (
      select max(s.paid_at) from checkout_sessions s
      where s.merchant = h.merchant and s.account_id = h.account_id and s.checkout_ref is not null
    ) desc nulls last, h.connected_at, h.account_id
  ) as place
  from processor_connections h where h.current and h.disconnected_at is null
) held
where held.place > 1 and c.account_id = held.account_id and c.merchant = held.merchant;

alter table processor_connections
  -- Whether the account may connect it again: false since another account proved it.
  add column proven boolean not null default true,
  add column released_at timestamptz(3);

create unique index processor_connections_holder on processor_connections (merchant)
  where current and disconnected_at is null;

-- A vendor on its way through the processor's consent page.
create table processor_authorizations (
  -- SHA-256 of the state; what is kept opens nothing.
  state_hash bytea primary key,
  account_id text collate "C" not null,
  expires_at timestamptz(3) not null,
  -- The state is used up: which browser came back with it, and what it may confirm.
  browser_hash bytea,
  merchant text collate "C",
  confirmation_hash bytea unique
);
create index processor_authorizations_of on processor_authorizations (account_id, expires_at);
create index processor_authorizations_ended on processor_authorizations (expires_at);
