import type { FastifyBaseLogger } from 'fastify'
import { parseForm } from '../http/form.ts'
import type { Answer } from '../http/idempotency.ts'
import { Params } from '../http/params.ts'
import { StripeError, isValidationError } from '../http/stripe-error.ts'
import { asEmbedded } from '../objects/embedded.ts'
import type { Cause } from '../objects/event.ts'
import type { Owner } from '../world/collection.ts'
import { withLivemode } from '../world/livemode.ts'
import type { World } from '../world/world.ts'
import type { Handler } from './call.ts'
import { expand } from './expand.ts'

/** An answer, and whether an idempotency key remembers it. */
export type CallResult = { answer: Answer; savable: boolean }

export type Incoming = { account: Owner; id: string; parameters: unknown; cause: Cause }

/** Runs a handler to its end without a pause, so that no two calls meet half way. */
export function runCall(
  world: World,
  handler: Handler,
  incoming: Incoming,
  log: FastifyBaseLogger,
): CallResult {
  const { account, id, parameters, cause } = incoming
  try {
    const tree = typeof parameters === 'string' ? parseForm(parameters) : Object(parameters)
    const { expand: paths, ...values } = tree as Record<string, unknown>
    const params = new Params(values)
    const result = world.emitter.causedBy(cause, () => handler({ world, account, id, params }))
    const expanded = expand(world, account, result, new Params({ paths }).strings('paths'))
    const answer = withLivemode(world.settings.of(account).livemode, asEmbedded(expanded))
    return { answer: { status: 200, body: JSON.stringify(answer, null, 2) }, savable: true }
  } catch (error) {
    return errorResult(error, log)
  }
}

export function errorResult(error: unknown, log: FastifyBaseLogger): CallResult {
  if (error instanceof StripeError) {
    const body = JSON.stringify({ error: error.body }, null, 2)
    return { answer: { status: error.status, body }, savable: !isValidationError(error) }
  }
  log.error(error, 'the simulator failed')
  const body = JSON.stringify({ error: { type: 'api_error', message: 'The simulator itself failed.' } })
  return { answer: { status: 500, body }, savable: false }
}
