import type { Principal } from '@licensing/proto/catalog'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { z } from 'zod'
import type { AdmissionDependencies } from '../admission/admit.ts'
import { limitKeyOf } from '../admission/client-address.ts'
import { hashOfKey } from '../admission/principals.ts'
import { parseJson } from '../http/request.ts'
import { validate } from '../http/validate.ts'

export const sessionPath = '/portal/session'

const credentials = z.strictObject({ key: z.string() })

/** Sign-in and sign-out of the portal. Only for the portal’s pages, so not in the API's document. */
export function mountSessions(app: FastifyInstance, admission: AdmissionDependencies): void {
  const { sessions, throttle } = admission

  app.post(sessionPath, async (request, reply) => {
    const { keyHash, principal } = await signIn(admission, request, reply)
    throttle.key(reply, principal.actorId)
    sessions.begin(request, reply, keyHash)
    return done(reply)
  })

  app.delete(sessionPath, async (request, reply) => {
    throttle.unauthenticated(reply, limitKeyOf(request.ip))
    sessions.refuseForeignOrigin(request)
    sessions.end(request, reply)
    return done(reply)
  })
}

// A refused sign-in counts against the address, like an API request without a valid key.
async function signIn(
  { sessions, principals, throttle }: AdmissionDependencies,
  request: FastifyRequest,
  reply: FastifyReply,
): Promise<{ keyHash: string; principal: Principal }> {
  const caller = limitKeyOf(request.ip)
  try {
    sessions.refuseForeignOrigin(request)
    const { key } = validate(credentials, parseJson(request.body, false), 'body')
    sessions.requireKeys()
    const keyHash = hashOfKey(key)
    return { keyHash, principal: await principals.principalOf(keyHash, caller) }
  } catch (error) {
    throttle.unauthenticated(reply, caller)
    throw error
  }
}

function done(reply: FastifyReply): FastifyReply {
  return reply.code(204).header('cache-control', 'no-store').send()
}
