-- When the last token that an activation was given ends, an offline file's included; null until the next token.
-- Readers and writers queue behind whatever waits for this lock: it is waited for in short turns.
do $$
begin
  for turn in 1..300 loop
    begin
      perform set_config('lock_timeout', case when turn < 300 then '200ms' else '0' end, true);
      alter table activations add column token_ends_at timestamptz(3);
      exit;
    exception when lock_not_available then
      perform pg_sleep(0.5);
    end;
  end loop;
end
$$;

-- Activations that a product freed before their last token ended, on licences that limit their activations. They are
-- written and counted under the lock of the licence's row. The first ten of a licence and UTC day are here to be
-- counted that day; each later one takes a place until its token ends.
create table freed_places (
  activation_id text collate "C" primary key,
  licence_id text collate "C" not null,
  fingerprint text collate "C" not null,
  takes_place boolean not null,
  freed_at timestamptz(3) not null,
  token_ends_at timestamptz(3) not null
);
create index freed_places_of_licence on freed_places (licence_id, fingerprint);
-- For the cleanup.
create index freed_places_ended on freed_places (token_ends_at) where takes_place;
create index freed_places_of_earlier_days on freed_places (freed_at) where not takes_place;
