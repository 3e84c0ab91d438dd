import { expect, test } from 'vitest'
import { hashOf, migrations, problemsOf, released } from './migrations.ts'

test('no released migration was edited, and new ones keep the rules for upgrades', () => {
  expect(Object.keys(migrations).length).toBeGreaterThan(7)
  expect(problemsOf(released, migrations)).toEqual([])
})

test('the guard finds an edited, a missing and an overtaken migration, and statements that break a rolling upgrade', () => {
  const first = { 'services/a/migrations/0002-a.sql': 'create table a (id int);' }
  const known = { 'services/a/migrations/0002-a.sql': hashOf(first['services/a/migrations/0002-a.sql']) }
  const after = (file: string, text: string) =>
    problemsOf(known, { ...first, [`services/a/migrations/${file}`]: text })
  expect(problemsOf(known, first)).toEqual([])
  expect(problemsOf(known, {})).toHaveLength(1)
  expect(
    problemsOf(known, { 'services/a/migrations/0002-a.sql': 'create table a (id bigint);' }),
  ).toHaveLength(1)
  expect(after('0001-b.sql', 'create table b (id int);')).toHaveLength(1)
  for (const text of [
    'alter table a add column b int;',
    "alter table a add column b text not null default '';",
    'alter table a add check (id > 0) not valid;',
    '-- without a transaction\ncreate index concurrently a_id on a (id);',
    'create table b (id int not null unique);\ncreate index b_id on b (id);',
  ]) {
    expect(after('0003-b.sql', text), text).toEqual([])
  }
  for (const text of [
    'alter table a drop column id;',
    'alter table a rename column id to b;',
    'alter table a alter column id set not null;',
    'alter table a alter column id type bigint;',
    'create unique index a_id on a (id);',
    'create table b (id int);\ncreate index b_id on b (id);\ncreate index a_id on a (id);',
    'alter table a add column b int not null;',
    'alter table a add column b int check (b > 0);',
    'alter table a add constraint positive check (id > 0);',
    'alter table a add unique (id);',
  ]) {
    expect(after('0003-b.sql', text), text).toHaveLength(1)
    expect(after('0003-b.sql', `-- contract: nothing reads it since 0.2.0\n${text}`), text).toEqual([])
  }
})
