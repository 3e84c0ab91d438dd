import { randomBytes } from 'node:crypto'
import { beforeEach, expect, test } from 'vitest'
import { entriesOf, catalogOfFile, givenTenant, outcomeOf, outcomesOf } from '../../test/catalog.ts'
import type { Tenant } from '../../test/catalog.ts'

const catalog = await catalogOfFile()
const { calls, replicas, sql } = catalog
let tenant: Tenant
beforeEach(async () => void (tenant = await givenTenant(catalog)))

const issuer = 'https://id.example.com'
const unique = () => randomBytes(8).toString('hex')
const givenPerson = (change: object = {}) => {
  const subject = unique()
  return { issuer, subject, verifiedEmail: `${subject}@example.com`, name: 'Ann', ...change }
}
const givenMember = (email: string, { accountId } = tenant) =>
  calls.createMember({ accountId, email, role: 'viewer' })

const idsOf = async (person: Omit<ReturnType<typeof givenPerson>, 'verifiedEmail'>) =>
  (await calls.findMembersOfPerson({ person })).members.map(({ memberId }) => memberId)

test('the first sign-in needs the verified address, in any case; later ones need the person, and not the address', async () => {
  const { accountId } = tenant
  const person = givenPerson()
  const { id: memberId } = await givenMember(person.verifiedEmail.toUpperCase())
  const { verifiedEmail: _, ...unverified } = person
  expect(await idsOf(unverified)).toEqual([])
  expect(await outcomeOf(calls.signIn({ memberId, person: unverified }))).toBe('unauthenticated')
  expect(await idsOf(person)).toEqual([memberId])
  const bound = await calls.signIn({ memberId, person })
  expect(bound).toMatchObject({ id: memberId, email: person.verifiedEmail.toUpperCase(), name: 'Ann' })
  expect(bound.lastSignInAt).toBeDefined()
  expect((await entriesOf(catalog, tenant)).filter(({ operation }) => operation === 'signIn')).toMatchObject([
    { actor: memberId, resourceId: memberId, changes: {} },
  ])

  expect(await idsOf(unverified)).toEqual([memberId])
  const renamed = { ...person, verifiedEmail: 'other@example.com', name: 'Ann Other' }
  const again = await calls.signIn({ memberId, person: renamed })
  expect(again).toMatchObject({ email: bound.email, name: 'Ann Other' })
  const { name: __, ...nameless } = renamed
  expect(await calls.signIn({ memberId, person: nameless })).toMatchObject({ name: 'Ann Other' })
  expect(await calls.getMember({ accountId, memberId })).toMatchObject({ name: 'Ann Other' })
})

test('another person with the same address, and the same subject of another issuer, are refused after that', async () => {
  const person = givenPerson()
  const { id: memberId } = await givenMember(person.verifiedEmail)
  await calls.signIn({ memberId, person })
  for (const change of [{ subject: unique() }, { issuer: 'https://other.example.com' }]) {
    const other = { ...person, ...change }
    expect(await idsOf(other)).toEqual([])
    expect(await outcomeOf(calls.signIn({ memberId, person: other }))).toBe('unauthenticated')
  }
})

test('of many people with one address who sign in at the same time, one is bound', async () => {
  const { verifiedEmail } = givenPerson()
  const { id: memberId } = await givenMember(verifiedEmail)
  const attempts = Array.from({ length: 10 }, (_, at) =>
    replicas[at % 2]!.signIn({ memberId, person: { ...givenPerson(), verifiedEmail } }),
  )
  const outcomes = await outcomesOf(attempts)
  expect(outcomes.toSorted()).toEqual(['ok', ...Array.from({ length: 9 }, () => 'unauthenticated')])
})

test('a person of several accounts is bound to the chosen one alone', async () => {
  const person = givenPerson()
  const accounts = [tenant, await givenTenant(catalog), await givenTenant(catalog)]
  await sql`update accounts set name = 'Zoo' where id = ${accounts[0]!.accountId}`
  const members = await Promise.all(accounts.map((account) => givenMember(person.verifiedEmail, account)))
  const found = await calls.findMembersOfPerson({ person })
  expect(found.members.map(({ accountName }) => accountName)).toEqual(['Test', 'Test', 'Zoo'])
  await calls.signIn({ memberId: members[1]!.id, person })
  const { verifiedEmail: _, ...unverified } = person
  expect(await idsOf(unverified)).toEqual([members[1]!.id])
  expect((await idsOf(person)).toSorted()).toEqual(members.map(({ id }) => id).toSorted())
})

test('in an account in which the person is bound, another member with the address is not offered', async () => {
  const person = givenPerson()
  const { id: memberId } = await givenMember(person.verifiedEmail)
  await calls.signIn({ memberId, person })
  const moved = { ...person, verifiedEmail: `${unique()}@example.com` }
  const other = await givenMember(moved.verifiedEmail)
  expect(await idsOf(moved)).toEqual([memberId])
  expect(await outcomeOf(calls.signIn({ memberId: other.id, person: moved }))).toBe('unauthenticated')
})

test('a removed member cannot sign in; one who is added again with the address can', async () => {
  const { accountId } = tenant
  const person = givenPerson()
  const { id: memberId } = await givenMember(person.verifiedEmail)
  await calls.signIn({ memberId, person })
  await calls.removeMember({ accountId, memberId })
  expect(await idsOf(person)).toEqual([])
  expect(await outcomeOf(calls.signIn({ memberId, person }))).toBe('unauthenticated')
  const added = await givenMember(person.verifiedEmail)
  expect(await idsOf(person)).toEqual([added.id])
  await calls.signIn({ memberId: added.id, person })
  expect(await outcomeOf(calls.signIn({ memberId, person }))).toBe('unauthenticated')
})

test('a member id that is none, and texts that cannot be stored, are refused', async () => {
  const person = givenPerson()
  expect(await outcomeOf(calls.signIn({ memberId: 'x', person }))).toBe('unauthenticated')
  const refusal = (change: object) => outcomeOf(calls.findMembersOfPerson({ person: givenPerson(change) }))
  expect(await refusal({ subject: '' })).toBe('validation_failed /person/subject')
  expect(await refusal({ subject: 'x'.repeat(256) })).toBe('validation_failed /person/subject')
  expect(await refusal({ subject: 'nul\0' })).toBe('validation_failed /person/subject')
  expect(await refusal({ name: 'x'.repeat(201) })).toBe('validation_failed /person/name')
  expect(await outcomeOf(calls.findMembersOfPerson({}))).toBe('validation_failed /person/issuer')
})

test('a state works once, on all replicas; old states are deleted by later sign-ins', async () => {
  const stateHash = randomBytes(32)
  const outcomes = await outcomesOf(
    Array.from({ length: 10 }, (_, at) => replicas[at % 2]!.useSignInState({ stateHash })),
  )
  expect(outcomes.toSorted()).toEqual([...Array.from({ length: 9 }, () => 'bad_request'), 'ok'])
  await sql`
    insert into used_sign_in_states (state_hash, used_at)
    select sha256(n::text::bytea), now() - interval '2 hours' from generate_series(1, 25) as n`
  for (let count = 0; count < 3; count++) await calls.useSignInState({ stateHash: randomBytes(32) })
  const [old] = await sql<{ count: number }[]>`
    select count(*)::int as count from used_sign_in_states where used_at < now() - interval '1 hour'`
  expect(old!.count).toBe(0)
  expect(await outcomeOf(calls.useSignInState({ stateHash }))).toBe('bad_request')
  expect(await outcomeOf(calls.useSignInState({ stateHash: randomBytes(31) }))).toBe(
    'validation_failed /state_hash',
  )
})
