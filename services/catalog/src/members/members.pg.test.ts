import { newId } from '@licensing/database/ids'
import { beforeEach, expect, test } from 'vitest'
import { catalogOfFile, eventsOf, firstPage, givenTenant, outcomeOf, outcomesOf } from '../../test/catalog.ts'
import type { Tenant } from '../../test/catalog.ts'

const catalog = await catalogOfFile()
const { calls, replicas } = catalog
let tenant: Tenant
beforeEach(async () => void (tenant = await givenTenant(catalog)))

let made = 0
const givenMember = (role: string, change: object = {}) =>
  calls.createMember({ accountId: tenant.accountId, email: `m${++made}@example.com`, role, ...change })

test('a member is listed with the address as it was given, and has the scopes of the role', async () => {
  const { accountId } = tenant
  const scopes = {
    owner: ['admin', 'read', 'revoke', 'issue'],
    admin: ['admin', 'read', 'revoke', 'issue'],
    support: ['read', 'revoke', 'issue'],
    viewer: ['read'],
  }
  for (const [role, wanted] of Object.entries(scopes)) {
    const email = `Ann.${role}@Example.com`
    const member = await calls.createMember({ accountId, email, role })
    expect(member).toMatchObject({ id: expect.stringMatching(/^usr_/), email, role })
    expect(member.name).toBeUndefined()
    expect(member.removedAt).toBeUndefined()
    expect(await calls.getMember({ accountId, memberId: member.id })).toEqual(member)
    const principal = await calls.authenticateMember({ memberId: member.id })
    expect(principal).toMatchObject({ actorId: member.id, accountId, scopes: wanted, role })
    expect(principal.applicationId).toBeUndefined()
  }
  const { members, hasMore } = await calls.listMembers({ accountId, limit: 3, beforeId: '' })
  expect(members.map(({ role }) => role)).toEqual(['viewer', 'support', 'admin'])
  expect(hasMore).toBe(true)
  const rest = await calls.listMembers({ accountId, limit: 3, beforeId: members.at(-1)!.id })
  expect(rest.members.map(({ role }) => role)).toEqual(['owner'])
})

test('a member of one application reaches that application alone, and can become anything but an owner', async () => {
  const { accountId, applicationId } = tenant
  const { id: memberId } = await givenMember('viewer', { applicationId })
  expect(await calls.authenticateMember({ memberId })).toMatchObject({ applicationId, scopes: ['read'] })
  const changed = await calls.updateMember({ accountId, memberId, role: 'admin' })
  expect(changed).toMatchObject({ role: 'admin', applicationId })
  const attempt = calls.updateMember({ accountId, memberId, role: 'owner' })
  expect(await outcomeOf(attempt)).toBe('validation_failed /role')
})

test('a wrong address, role or application is refused with each field', async () => {
  const { applicationId } = tenant
  const other = await givenTenant(catalog)
  const refusal = (change: object) => outcomeOf(givenMember('viewer', change))
  for (const email of ['', 'x', 'a@b@c', 'a b@c', `${'x'.repeat(250)}@example.com`, 'nul\0@example.com'])
    expect(await refusal({ email }), email).toBe('validation_failed /email')
  expect(await refusal({ role: 'root' })).toBe('validation_failed /role')
  expect(await refusal({ role: 'owner', applicationId })).toBe('validation_failed /app_id')
  for (const id of [other.applicationId, newId('app'), 'x', 'nul\0'])
    expect(await refusal({ applicationId: id })).toBe('validation_failed /app_id')
  expect(await refusal({ email: 'x', role: 'root' })).toBe('validation_failed /email /role')
  expect((await calls.listMembers({ accountId: tenant.accountId, ...firstPage })).members).toEqual([])
})

test('an address exists once among the members of an account, in any case, until its member is removed', async () => {
  const { accountId } = tenant
  const spellings = ['ann@example.com', 'Ann@example.com', 'ANN@EXAMPLE.COM', 'ann@Example.com']
  const attempts = spellings.map((email, at) =>
    replicas[at % 2]!.createMember({ accountId, email, role: 'viewer' }),
  )
  expect((await outcomesOf(attempts)).toSorted()).toEqual([
    ...spellings.slice(1).map(() => 'already_exists'),
    'ok',
  ])
  const { members } = await calls.listMembers({ accountId, ...firstPage })
  await calls.removeMember({ accountId, memberId: members[0]!.id })
  const { id } = await givenMember('viewer', { email: 'ann@example.com' })
  expect(id).not.toBe(members[0]!.id)
  // The addresses of other accounts do not count, nor do other letters that have the same lower case.
  tenant = await givenTenant(catalog)
  await givenMember('viewer', { email: 'ann@example.com' })
  await givenMember('viewer', { email: 'mike@example.com' })
  await givenMember('viewer', { email: 'mi\u{212a}e@example.com' })
})

test('a removed member is refused and stays in the list; removing again changes nothing and has the same answer', async () => {
  const { accountId } = tenant
  await givenMember('owner')
  const { id: memberId } = await givenMember('owner')
  await Promise.all(Array.from({ length: 10 }, () => calls.removeMember({ accountId, memberId })))
  expect(await outcomeOf(calls.authenticateMember({ memberId }))).toBe('unauthenticated')
  const listed = await calls.listMembers({ accountId, ...firstPage })
  expect(listed.members[0]).toMatchObject({ id: memberId, removedAt: expect.anything() })
  await calls.removeMember({ accountId, memberId })
  expect(await calls.listMembers({ accountId, ...firstPage })).toEqual(listed)
  for (const role of ['viewer', 'owner', undefined])
    expect(await outcomeOf(calls.updateMember({ accountId, memberId, role }))).toBe('conflict')
  expect(await eventsOf(catalog, tenant)).toEqual([])
})

test('the last owner can be neither removed nor given another role; an account may be without owners from the beginning', async () => {
  const { accountId } = tenant
  const admin = await givenMember('admin')
  await calls.removeMember({ accountId, memberId: admin.id })
  const { id: memberId } = await givenMember('owner')
  await givenMember('admin')
  expect(await outcomeOf(calls.removeMember({ accountId, memberId }))).toBe('conflict')
  expect(await outcomeOf(calls.updateMember({ accountId, memberId, role: 'admin' }))).toBe('conflict')
  expect(await calls.updateMember({ accountId, memberId, role: 'owner' })).toMatchObject({ role: 'owner' })
  expect(await calls.updateMember({ accountId, memberId })).toMatchObject({ role: 'owner' })
})

test('of owners who remove and demote each other at the same time, one stays', async () => {
  const { accountId } = tenant
  const owners = await Promise.all(Array.from({ length: 6 }, () => givenMember('owner')))
  const attempts = owners.map(async ({ id: memberId }, at) => {
    const replica = replicas[at % 2]!
    return at < 3
      ? replica.removeMember({ accountId, memberId })
      : replica.updateMember({ accountId, memberId, role: 'viewer' })
  })
  const outcomes = await outcomesOf(attempts)
  expect(outcomes.toSorted()).toEqual(['conflict', ...Array.from({ length: 5 }, () => 'ok')])
  const { members } = await calls.listMembers({ accountId, ...firstPage })
  expect(members.filter(({ role, removedAt }) => role === 'owner' && !removedAt)).toHaveLength(1)
})

test('a member of another account, an unknown id and a text that is no id are not found, and nothing is changed', async () => {
  const { accountId } = tenant
  const other = await givenTenant(catalog)
  const { id } = await givenMember('viewer')
  for (const path of [
    { accountId: other.accountId, memberId: id },
    { accountId, memberId: newId('usr') },
    { accountId, memberId: 'usr_\0' },
  ]) {
    const attempts = [
      calls.getMember(path),
      calls.removeMember(path),
      calls.updateMember({ ...path, role: 'admin' }),
    ]
    expect(await outcomesOf(attempts)).toEqual(['not_found', 'not_found', 'not_found'])
  }
  expect(await outcomeOf(calls.authenticateMember({ memberId: newId('usr') }))).toBe('unauthenticated')
  expect(await outcomeOf(calls.authenticateMember({ memberId: 'x' }))).toBe('unauthenticated')
  expect(await calls.getMember({ accountId, memberId: id })).toMatchObject({ role: 'viewer' })
})

test('keys and members have names, also when they were revoked or removed; other actors and other accounts have none', async () => {
  const { accountId } = tenant
  const { apiKey } = await calls.createApiKey({ accountId, name: 'shop', scopes: ['read'] })
  await calls.revokeApiKey({ accountId, keyId: apiKey!.id })
  const member = await givenMember('viewer', { email: 'Bob@example.com' })
  await calls.removeMember({ accountId, memberId: member.id })
  const actorIds = [apiKey!.id, member.id, 'sweep', 'key_\0', newId('usr'), newId('key')]
  const { names } = await calls.nameActors({ accountId, actorIds })
  expect(names).toEqual({ [apiKey!.id]: 'shop', [member.id]: 'Bob@example.com' })
  const other = await givenTenant(catalog)
  expect((await calls.nameActors({ accountId: other.accountId, actorIds })).names).toEqual({})
})
