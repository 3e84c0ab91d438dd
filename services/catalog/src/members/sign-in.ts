import { audit } from '@licensing/changes/audit'
import type { Transaction } from '@licensing/database/connect'
import { isId } from '@licensing/database/ids'
import { brokenConstraint } from '@licensing/database/problems'
import { ServiceError, invalid } from '@licensing/grpc/errors'
import type { Person } from '@licensing/proto/catalog'
import { problemOfText, textLimits } from '@licensing/proto/text'
import type { Handler } from '../dependencies.ts'
import { bindPerson, insertUsedState, listMembersOfPerson } from './member-queries.ts'
import type { PersonRow } from './member-queries.ts'
import { toMember } from './members.ts'

const maxMembers = 100

export const useSignInState: Handler<'useSignInState'> = async ({ sql }, { stateHash }) => {
  if (stateHash.length !== 32) throw invalid('/state_hash', 'must be a SHA-256 hash')
  if (await insertUsedState(sql, stateHash)) return {}
  throw new ServiceError('bad_request', 'this sign-in was completed before')
}

export const findMembersOfPerson: Handler<'findMembersOfPerson'> = async ({ sql }, { person }) => {
  const rows = await listMembersOfPerson(sql, toRow(person), maxMembers)
  return { members: rows.map(({ id, account_name: accountName }) => ({ memberId: id, accountName })) }
}

/**
 * Concurrent first sign-ins of several people wait for each other's row; those that come later find it bound and are refused.
 */
export const signIn: Handler<'signIn'> = async ({ change }, { memberId, person }) => {
  const row = toRow(person)
  const bind = async (tx: Transaction) => {
    const member = isId('usr', memberId) ? await bindPerson(tx, memberId, row) : undefined
    if (!member) return undefined
    await audit(tx, {
      accountId: member.account_id,
      applicationId: member.application_id ?? undefined,
      resourceId: member.id,
      changes: {},
      by: { actor: member.id, operation: 'signIn' },
    })
    return member
  }
  const member = await change(bind).catch((error: unknown) => {
    // The person was bound to another member of the account meanwhile.
    if (brokenConstraint(error) !== 'members_person') throw error
  })
  if (!member) throw new ServiceError('unauthenticated', 'this person cannot sign in as this member')
  return toMember(member)
}

function toRow(person: Person | undefined): PersonRow {
  const { issuer = '', subject = '', verifiedEmail = null, name = null } = person ?? {}
  for (const [pointer, text, limit] of [
    ['/person/issuer', issuer, textLimits.webAddress],
    ['/person/subject', subject, textLimits.reference],
    ['/person/verified_email', verifiedEmail, textLimits.emailAddress],
    ['/person/name', name, textLimits.name],
  ] as const) {
    const problem = text === null ? undefined : problemOfText(text, limit)
    if (problem) throw invalid(pointer, problem)
  }
  return { issuer, subject, email: verifiedEmail, name }
}
