import { messageOf } from '@licensing/grpc/fields'
import { audit, changesOf } from '@licensing/changes/audit'
import type { Transaction } from '@licensing/database/connect'
import { isId, newId } from '@licensing/database/ids'
import { pageOf } from '@licensing/database/page'
import { brokenConstraint } from '@licensing/database/problems'
import { ServiceError, invalid } from '@licensing/grpc/errors'
import { MemberSchema, PrincipalSchema } from '@licensing/proto/catalog'
import type { Member } from '@licensing/proto/catalog'
import { closedSets, isMember } from '@licensing/proto/closed-sets'
import type { MemberRole, Scope } from '@licensing/proto/closed-sets'
import { checkQuota } from '@licensing/quotas/quota'
import { lockAccount } from '../accounts/account-queries.ts'
import { emailAddress } from '../accounts/accounts.ts'
import { namesOfKeys } from '../api-keys/api-key-queries.ts'
import type { Handler } from '../dependencies.ts'
import { checkPage, notFound, Violations } from '../refusals.ts'
import {
  countMembers,
  findMember,
  findPresentMember,
  insertMember,
  listMemberRows,
  namesOfMembers,
  removeMemberRow,
  updateRole,
} from './member-queries.ts'
import type { MemberRow } from './member-queries.ts'

/** The rights of each role. */
const scopesOfRole = {
  owner: closedSets.scope,
  admin: closedSets.scope,
  support: ['read', 'revoke', 'issue'],
  viewer: ['read'],
} as const satisfies Record<MemberRole, readonly Scope[]>

/** No event reports a removal or a new role: a gateway asks about each member as often as about API keys. */
export const authenticateMember: Handler<'authenticateMember'> = async ({ sql }, { memberId }) => {
  const row = isId('usr', memberId) ? await findPresentMember(sql, memberId) : undefined
  if (!row)
    throw new ServiceError('unauthenticated', 'this person is not a member of the account: sign in again')
  return messageOf(PrincipalSchema, { ...row, actor_id: row.id, scopes: [...scopesOfRole[row.role]] })
}

export const createMember: Handler<'createMember'> = async ({ change, queue }, request) => {
  const { accountId, applicationId, email, role } = request
  const violations = new Violations()
  if (!emailAddress.test(email)) violations.add('/email', 'must be an e-mail address')
  if (!isMember('memberRole', role)) violations.add('/role', notARole)
  if (applicationId !== undefined && !isId('app', applicationId)) violations.add('/app_id', noSuchApplication)
  else if (applicationId !== undefined && role === 'owner') violations.add('/app_id', notForOwners)
  violations.throwIfAny()
  const insert = async (tx: Transaction) => {
    if (!(await lockAccount(tx, accountId))) throw notFound('account', accountId)
    const row = await insertMember(tx, {
      id: newId('usr'),
      accountId,
      applicationId: applicationId ?? null,
      email,
      role: role as MemberRole,
    }).catch((error: unknown) => {
      const constraint = brokenConstraint(error)
      if (constraint === 'members_application') throw invalid('/app_id', noSuchApplication)
      if (constraint !== 'members_email') throw error
      throw new ServiceError(
        'already_exists',
        `a member with the address ${email} exists: change that one, or remove it first`,
      )
    })
    await checkQuota(tx, accountId, 'members', (await countMembers(tx, accountId)).members)
    await auditMember(tx, undefined, row)
    return row
  }
  const answer = { schema: MemberSchema, toMessage: toMember }
  return toMember(await queue.run(accountId, () => change(insert, { answer })))
}

const notARole = `must be one of ${closedSets.memberRole.join(', ')}`
const noSuchApplication = 'must be the id of an application of this account'
const notForOwners = 'an owner reaches all applications: leave out app_id, or choose another role'

export const getMember: Handler<'getMember'> = async ({ sql }, { accountId, memberId }) => {
  const row = isId('usr', memberId) ? await findMember(sql, accountId, memberId) : undefined
  if (!row) throw notFound('member', memberId)
  return toMember(row)
}

export const listMembers: Handler<'listMembers'> = async ({ sql }, request) => {
  checkPage('usr', request)
  const rows = await listMemberRows(sql, request.accountId, request)
  const { page, hasMore } = pageOf(rows, request.limit)
  return { members: page.map(toMember), hasMore }
}

export const updateMember: Handler<'updateMember'> = async (deps, request) => {
  const { role } = request
  if (role !== undefined && !isMember('memberRole', role)) throw invalid('/role', notARole)
  const row = await changeMember(deps, request, async (tx, member) => {
    if (role === 'owner' && member.application_id !== null) {
      throw invalid('/role', 'this member is bound to an application, and an owner reaches all of them')
    }
    if (member.removed_at) {
      throw new ServiceError(
        'conflict',
        `member ${member.id} is removed: add a member with the same address instead`,
      )
    }
    if (role === undefined || role === member.role) return member
    await checkIsNotLastOwner(tx, member)
    const changed = await updateRole(tx, member.id, role)
    await auditMember(tx, member, changed)
    return changed
  })
  return toMember(row)
}

/** Removing a member again changes nothing and has the same answer. */
export const removeMember: Handler<'removeMember'> = async (deps, request) => {
  await changeMember(deps, request, async (tx, member) => {
    if (member.removed_at) return
    await checkIsNotLastOwner(tx, member)
    await auditMember(tx, member, await removeMemberRow(tx, member.id))
  })
  return {}
}

/**
 * Runs a change of a member under the lock of the account, so that of two owners who remove each other one stays.
 *
 * @throws ServiceError `not_found` if the account has no such member
 */
async function changeMember<T>(
  { change, queue }: Parameters<Handler<'removeMember'>>[0],
  { accountId, memberId }: { accountId: string; memberId: string },
  work: (tx: Transaction, member: MemberRow) => Promise<T>,
): Promise<T> {
  if (!isId('usr', memberId)) throw notFound('member', memberId)
  return queue.run(accountId, () =>
    change(async (tx) => {
      await lockAccount(tx, accountId)
      const member = await findMember(tx, accountId, memberId)
      if (!member) throw notFound('member', memberId)
      return work(tx, member)
    }),
  )
}

async function auditMember(tx: Transaction, before: MemberRow | undefined, after: MemberRow): Promise<void> {
  await audit(tx, {
    accountId: after.account_id,
    applicationId: after.application_id ?? undefined,
    resourceId: after.id,
    changes: changesOf(MemberSchema, before && toMember(before), toMember(after)),
  })
}

async function checkIsNotLastOwner(tx: Transaction, member: MemberRow): Promise<void> {
  if (member.role !== 'owner' || (await countMembers(tx, member.account_id)).owners > 1) return
  throw new ServiceError(
    'conflict',
    `member ${member.id} is the last owner of the account: make another member an owner first`,
  )
}

/** Names API keys and members for people who read what they did. */
export const nameActors: Handler<'nameActors'> = async ({ sql }, { accountId, actorIds }) => {
  const keys = actorIds.filter((id) => isId('key', id))
  const members = actorIds.filter((id) => isId('usr', id))
  const named = await Promise.all([
    keys.length > 0 ? namesOfKeys(sql, accountId, keys) : [],
    members.length > 0 ? namesOfMembers(sql, accountId, members) : [],
  ])
  return { names: Object.fromEntries(named.flat().map(({ id, name }) => [id, name])) }
}

export function toMember(row: MemberRow): Member {
  return messageOf(MemberSchema, row)
}
