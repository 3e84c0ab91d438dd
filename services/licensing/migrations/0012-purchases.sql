-- What licences rest on: a checkout with all invoices of its subscription, or a sale. What a licence was issued or
-- imported with counts as its first purchase, and gets its row, with the licence's id for a ref, when another lands on
-- the licence. Who changes rows of a licence, here or in `purchase_effects`, holds the licence's row.
create table purchases (
  application_id text collate "C" not null,
  purchase_ref text collate "C" not null,
  account_id text collate "C" not null,
  licence_id text collate "C" not null,
  -- The processor's time of its first charge; null for what the licence was issued or imported with.
  ordered_at timestamptz(3),
  plan_id text collate "C" not null,
  snapshot_id text collate "C" not null,
  ends_at timestamptz(3),
  -- The same before all renewals; `ends_at` also as the vendor last set it.
  landed_plan_id text collate "C" not null,
  landed_snapshot_id text collate "C" not null,
  landed_ends_at timestamptz(3),
  -- When it was given back, charged back or cancelled.
  fell_at timestamptz(3),
  given_back boolean not null default false,
  primary key (application_id, purchase_ref)
);
create index purchases_of_licence on purchases (licence_id);

-- What happened to purchases and when, by the processor's clock: each once.
create table purchase_effects (
  licence_id text collate "C" not null,
  purchase_ref text collate "C" not null,
  kind text not null,
  cause text collate "C" not null,
  at timestamptz(3) not null,
  -- What a renewal brings.
  ends_at timestamptz(3),
  plan_id text collate "C",
  snapshot_id text collate "C",
  primary key (licence_id, purchase_ref, kind, cause)
);

-- Of what payments have provisioned so far, the latest for each licence is what it rests on.
insert into purchases (application_id, purchase_ref, account_id, licence_id, ordered_at, plan_id, snapshot_id,
  ends_at, landed_plan_id, landed_snapshot_id, landed_ends_at, fell_at, given_back)
select distinct on (l.id) p.application_id, p.payment_ref, l.account_id, l.id, coalesce(h.at, l.created_at), l.plan_id,
  l.snapshot_id, l.expires_on, l.plan_id, l.snapshot_id, l.expires_on,
  -- Nothing but a cancellation expires a licence whose end is to come.
  case when l.status = 'expired' and l.expired_from is null then l.updated_at end, false
from provisions p join licences l on l.id = p.licence_id left join lateral (
  select at, position from licence_history
  where licence_id = l.id and type in ('created', 'plan_changed') and cause = p.payment_ref
  order by position desc limit 1
) h on true
order by l.id, h.position desc nulls last, p.payment_ref desc;

-- Readers and writers queue behind whoever waits for this lock: it is waited for in short turns.
do $$
begin
  for turn in 1..300 loop
    begin
      perform set_config('lock_timeout', case when turn < 300 then '200ms' else '0' end, true);
      -- The purchase that the licence rests on; null where it has none or one.
      alter table licences
        add column rests_on text collate "C",
        -- When the vendor last reactivated it: what its purchases had called for until then no longer counts.
        add column reactivated_at timestamptz(3);
      exit;
    exception when lock_not_available then
      perform pg_sleep(0.5);
    end;
  end loop;
end
$$;
