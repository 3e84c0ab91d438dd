import { ServiceError } from '@licensing/grpc/errors'
import { closedSets } from '@licensing/proto/closed-sets'
import type { MemberRole, Scope } from '@licensing/proto/closed-sets'
import { eventually } from '@licensing/test-support/poll'
import { randomBytes } from 'node:crypto'
import { expect, test } from 'vitest'
import { accountId, appId, gatewayOfFile, otherAppId, pathOf } from '../../test/gateway.ts'
import { encrypt, parseSessionKeys } from './session-encryption.ts'

const sessionKey = randomBytes(32).toString('base64url')
const gateway = await gatewayOfFile({ sessionKey })
const { catalog, licensing } = gateway.answers

interface Person {
  role: MemberRole
  applicationId?: string
}

const scopesOfRole: Record<MemberRole, Scope[]> = {
  owner: ['admin', 'read', 'revoke', 'issue'],
  admin: ['admin', 'read', 'revoke', 'issue'],
  support: ['read', 'revoke', 'issue'],
  viewer: ['read'],
}

const people = new Map<string, Person>()
catalog.authenticateMember = async ({ memberId }) => {
  const person = people.get(memberId)
  if (!person) throw new ServiceError('unauthenticated', 'removed')
  return { actorId: memberId, accountId, scopes: scopesOfRole[person.role], ...person }
}
catalog.getMember = async ({ memberId }) => ({
  id: memberId,
  email: 'ann@example.com',
  role: people.get(memberId)?.role ?? 'viewer',
})
catalog.createMember = async ({ email, role }) => ({ id: memberId, email, role })
catalog.updateMember = async () => ({ id: memberId, email: 'ann@example.com', role: 'viewer' })
catalog.removeMember = async () => ({})
catalog.listMembers = async () => ({ members: [], hasMore: false })

const memberId = 'usr_01k9zj3v8qe5ktw2m4x6r7n8ab'
let made = 0

/** A person who is signed in to the portal. @returns the id and the headers of the portal's requests */
function givenPerson(person: Person) {
  const id = `usr_01k9zj3v8qe5ktw2m4x6r7n8${String.fromCharCode(98 + Math.floor(++made / 10))}${made % 10}`
  people.set(id, person)
  const cookie = `portal_session=${encrypt(id, 'session', Date.now() + 60_000, parseSessionKeys(sessionKey))}`
  return { id, cookie, options: { key: null, headers: { cookie, 'x-requested-with': 'portal' } } }
}

test.each(closedSets.memberRole)(
  '%s: the session has the scopes of the role, and says whose it is',
  async (role) => {
    const { id, options } = givenPerson({ role })
    const { status, body } = await gateway.api.get('/v1/api-keys/self', options)
    expect(status).toBe(200)
    expect(body).toEqual({
      id,
      name: 'ann@example.com',
      email: 'ann@example.com',
      role,
      scopes: scopesOfRole[role],
      app_id: null,
      account_id: accountId,
    })
  },
)

test.each(closedSets.memberRole)(
  '%s: only owners change members, and only the scope admin reads them',
  async (role) => {
    const { options } = givenPerson({ role })
    const statuses = async (withBody: object) => [
      (await gateway.api.get('/v1/members', withBody)).status,
      (await gateway.api.get(`/v1/members/${memberId}`, withBody)).status,
      (
        await gateway.api.post('/v1/members', {
          ...withBody,
          body: { email: 'b@example.com', role: 'viewer' },
        })
      ).status,
      (await gateway.api.patch(`/v1/members/${memberId}`, { ...withBody, body: { role: 'viewer' } })).status,
      (await gateway.api.delete(`/v1/members/${memberId}`, withBody)).status,
    ]
    const expected = {
      owner: [200, 200, 201, 200, 204],
      admin: [200, 200, 403, 403, 403],
      support: [403, 403, 403, 403, 403],
      viewer: [403, 403, 403, 403, 403],
    }
    expect(await statuses(options)).toEqual(expected[role])
    expect(await statuses({})).toEqual(expected.owner)
  },
)

test('the refusal of a role names it and the scope that is needed', async () => {
  const refusal = async (person: Person, path: string, body: object) => {
    const answer = await gateway.api.post<{ code: string; detail: string }>(path, {
      ...givenPerson(person).options,
      body,
    })
    expect(answer.body.code).toBe('insufficient_scope')
    return answer.body.detail
  }
  expect(await refusal({ role: 'viewer' }, '/v1/api-keys', {})).toMatch(/scope admin.*role viewer has read/)
  expect(await refusal({ role: 'admin' }, '/v1/members', {})).toMatch(/needs the role owner.*role admin/)
  expect(await refusal({ role: 'admin', applicationId: appId }, '/v1/members', {})).toContain(appId)
})

test('a member of one application reaches that application alone', async () => {
  const { options } = givenPerson({ role: 'admin', applicationId: appId })
  catalog.getPlan = async ({ planId }) => ({ id: planId, status: 'active' })
  const status = async (application: string) =>
    (await gateway.api.get(pathOf('/v1/apps/{app_id}/plans/{plan_id}', application), options)).status
  expect([await status(appId), await status(otherAppId)]).toEqual([200, 404])
  for (const path of ['/v1/members', '/v1/api-keys', '/v1/account'])
    expect((await gateway.api.get(path, options)).status).toBe(403)
})

test('a session ends within 2 seconds after its member was removed, and a new role counts within 2 seconds', async () => {
  const { id, options } = givenPerson({ role: 'owner' })
  const list = async () => (await gateway.api.get('/v1/members', options)).status
  expect(await list()).toBe(200)
  people.set(id, { role: 'viewer' })
  await eventually(async () => expect(await list()).toBe(403), { timeoutMs: 2_000 })
  people.delete(id)
  await eventually(async () => expect(await list()).toBe(401), { timeoutMs: 2_000 })
})

test('the id of a member is no credential outside of a session', async () => {
  const { id, cookie } = givenPerson({ role: 'owner' })
  const attempts = [
    { key: id },
    { key: null, headers: { cookie } },
    { key: null, headers: { cookie: `portal_session=${id}`, 'x-requested-with': 'portal' } },
  ]
  for (const options of attempts) expect((await gateway.api.get('/v1/members', options)).status).toBe(401)
})

test('a change has the member as its actor, and the history names keys and members', async () => {
  const { id, options } = givenPerson({ role: 'support' })
  const actors: string[] = []
  licensing.suspendLicence = async ({ actor, licenceId }) => {
    actors.push(actor)
    return { id: licenceId, status: 'suspended' }
  }
  expect((await gateway.api.post(pathOf('/v1/licences/{licence_id}/suspend'), options)).status).toBe(200)
  expect(actors).toEqual([id])

  const key = 'key_01k9zj3v8qe5ktw2m4x6r7n8ab'
  const shown = [id, key, 'sweep', 'usr_01k9zj3v8qe5ktw2m4x6r7n8zz']
  licensing.listLicenceHistory = async () => ({
    entries: shown.map((actor) => ({ type: 'suspended', to: 'suspended', actor })),
    hasMore: false,
  })
  let asked: string[] = []
  catalog.nameActors = async ({ actorIds, accountId: account }) => {
    expect(account).toBe(accountId)
    asked = actorIds
    return { names: { [id]: 'Ann', [key]: 'shop' } }
  }
  const { body } = await gateway.api.get<{ data: object[] }>(
    pathOf('/v1/licences/{licence_id}/history'),
    options,
  )
  expect(asked.toSorted()).toEqual([key, id, shown[3]].toSorted())
  expect(body.data).toMatchObject([
    { actor: id, actor_name: 'Ann' },
    { actor: key, actor_name: 'shop' },
    { actor: 'sweep', actor_name: null },
    { actor: shown[3], actor_name: null },
  ])
})
