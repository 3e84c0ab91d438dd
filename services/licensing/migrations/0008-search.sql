-- What a search finds licences by, beside what has an index already. Readers are not held up, writers are until this
-- migration is committed.

-- Customer references without letter case: upper case in all alphabets, and independent of what stands around a
-- letter (lower case is not: a final sigma). Compared by code points, so that all with one beginning stand together.
create index licences_by_folded_ref on licences
  (application_id, (upper(external_ref collate "und-x-icu") collate "C"), id);

-- The host that an installation last said it runs on.
create index activations_by_host on activations (application_id, host, licence_id);

-- The domains that a licence is restricted to, kept by triggers and by nothing else. `licence_hosts` has hosts seen
-- running it too, and forgets none.
create table licence_domains (
  application_id text collate "C" not null,
  domain text collate "C" not null,
  licence_id text collate "C" not null,
  primary key (application_id, domain, licence_id)
);

create function keep_domains() returns trigger language plpgsql as $$
begin
  if tg_op = 'UPDATE' then
    delete from licence_domains
    where application_id = old.application_id and domain = any(old.domains) and licence_id = old.id;
  end if;
  insert into licence_domains (application_id, domain, licence_id)
  select distinct new.application_id, domain, new.id from unnest(new.domains) as domain order by 2;
  return null;
end
$$;
create trigger keep_domains_of_new after insert on licences
  for each row when (new.domains <> '{}') execute function keep_domains();
create trigger keep_domains_of_changed after update of domains on licences
  for each row when (new.domains <> old.domains) execute function keep_domains();

insert into licence_domains (application_id, domain, licence_id)
select distinct application_id, domain, id from licences, unnest(domains) as domain where domains <> '{}';
