-- Keys that vouch for an application's signing keys; products have the public ones compiled in. The kid is the public
-- key itself, so that an answer names it without another look.
create table root_keys (
  kid text collate "C" primary key,
  application_id text collate "C" not null,
  -- 1 is the first. The highest is the newest; all that are not retired sign.
  generation integer not null,
  -- PKCS #8, AES-256-GCM, bound to the kid.
  private_key bytea not null,
  created_at timestamptz(3) not null default now(),
  retired_at timestamptz(3),
  -- Of replicas that make an application's first at once, one wins.
  constraint root_keys_generation unique (application_id, generation)
);

-- The key set that each root key signed last. Every replica hands out this one: what products get never becomes older.
create table signed_key_sets (
  root_kid text collate "C" primary key references root_keys (kid),
  -- SHA-256 of the keys in it.
  digest bytea not null,
  issued_at timestamptz(0) not null,
  jws text not null
);

-- When the last offline token that the key signed ends: it verifies until then, retired or not.
alter table signing_keys add column offline_until timestamptz(0);
