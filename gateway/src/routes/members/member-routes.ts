import { MemberSchema } from '@licensing/proto/catalog'
import { closedSets } from '@licensing/proto/closed-sets'
import { z } from 'zod'
import { id, reference } from '../../fields/id.ts'
import { renderer } from '../../fields/messages.ts'
import { idCursor, limit, page, pageOf } from '../../fields/page.ts'
import { emailAddress, optional } from '../../fields/text.ts'
import { timestampText } from '../../fields/time.ts'
import { vendorRoute } from '../../route.ts'
import type { Route, VendorCall } from '../../route.ts'

const tag = 'Members'

const role = z
  .enum(closedSets.memberRole)
  .describe(
    '`owner` and `admin` have all scopes, `support` has `read`, `revoke` and `issue`, `viewer` has `read`. Only owners change members.',
  )

const memberSchema = z
  .strictObject({
    id: id('usr'),
    email: z.string(),
    name: z
      .string()
      .nullable()
      .describe('As the identity provider names the person; null before the first sign-in.'),
    role,
    created_at: timestampText,
    last_sign_in_at: timestampText.nullable(),
    removed_at: timestampText.nullable(),
    app_id: id('app')
      .nullable()
      .describe('The application that the member is restricted to; null for all applications.'),
  })
  .meta({ id: 'Member' })

const createMemberBody = z.strictObject({
  email: emailAddress.describe('The address that the identity provider has verified.'),
  role,
  app_id: optional(reference('app', 'application')).describe(
    'Restricts the member to one application. An owner cannot be restricted.',
  ),
})

const updateMemberBody = z.strictObject({ role: optional(role).describe('The new role.') })

const memberJson = renderer(MemberSchema, memberSchema)

interface MemberCall extends Pick<VendorCall, 'services' | 'accountId'> {
  params: { readonly member_id: string }
}

const path = ({ accountId, params }: MemberCall) => ({ accountId, memberId: params.member_id })
const findMember = (call: MemberCall) => call.services.catalog.getMember(path(call))

/** Members are read with the scope `admin`, and changed with an API key that has it, or by an owner. */
export const memberRoutes: Route[] = [
  vendorRoute({
    method: 'POST',
    path: '/v1/members',
    operationId: 'createMember',
    tag,
    summary: 'Add a member',
    description:
      'The person can sign in to the portal at the identity provider from then on. No mail is sent.',
    scopes: ['admin'],
    accountWide: true,
    ownersOnly: true,
    body: createMemberBody,
    status: 201,
    answer: memberSchema,
    errors: ['already_exists', 'quota_exceeded'],
    handle: async ({ services, accountId, body: { email, role, app_id: applicationId } }) => ({
      body: memberJson(await services.catalog.createMember({ accountId, email, role, applicationId })),
    }),
  }),
  vendorRoute({
    method: 'GET',
    path: '/v1/members',
    operationId: 'listMembers',
    tag,
    summary: 'List members, including removed ones',
    scopes: ['admin'],
    accountWide: true,
    query: z.strictObject({ limit, cursor: idCursor('usr') }),
    answer: pageOf(memberSchema),
    handle: async ({ services, accountId, query }) => {
      const { members, hasMore } = await services.catalog.listMembers({
        accountId,
        limit: query.limit,
        beforeId: query.cursor,
      })
      return { body: page(members.map(memberJson), hasMore, ({ id }) => id) }
    },
  }),
  vendorRoute({
    method: 'GET',
    path: '/v1/members/{member_id}',
    operationId: 'getMember',
    tag,
    summary: 'Get a member',
    scopes: ['admin'],
    accountWide: true,
    answer: memberSchema,
    handle: async (call) => ({ body: memberJson(await findMember(call)) }),
  }),
  vendorRoute({
    method: 'PATCH',
    path: '/v1/members/{member_id}',
    operationId: 'updateMember',
    tag,
    summary: 'Change the role of a member',
    description: 'The new role counts within 2 seconds.',
    scopes: ['admin'],
    accountWide: true,
    ownersOnly: true,
    body: updateMemberBody,
    answer: memberSchema,
    errors: ['conflict'],
    lookUp: findMember,
    handle: async (call) => ({
      body: memberJson(await call.services.catalog.updateMember({ ...path(call), role: call.body.role })),
    }),
  }),
  vendorRoute({
    method: 'DELETE',
    path: '/v1/members/{member_id}',
    operationId: 'removeMember',
    tag,
    summary: 'Remove a member',
    description:
      'The member’s sessions end within 2 seconds. The member stays listed. Removing again changes nothing.',
    scopes: ['admin'],
    accountWide: true,
    ownersOnly: true,
    errors: ['conflict'],
    lookUp: findMember,
    handle: async (call) => {
      await call.services.catalog.removeMember(path(call))
      return {}
    },
  }),
]
