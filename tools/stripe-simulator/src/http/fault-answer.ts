import type { Owner } from '../world/collection.ts'
import type { Answer } from './idempotency.ts'
import type { FaultKind } from './faults.ts'

export type Refused = { method: string; path: string; account: Owner }

/** Stripe's answer to a call that met a fault. */
export function faultAnswer(kind: FaultKind, refused: Refused): Answer {
  const answer = (status: number, error: object): Answer => ({
    status,
    body: JSON.stringify({ error }, null, 2),
  })
  switch (kind) {
    case '403':
      return answer(403, { message: missingPermission(refused), type: 'invalid_request_error' })
    case '409':
      return answer(409, {
        code: 'idempotency_key_in_use',
        message:
          'There is currently another in-progress request using this Idempotent Key (that probably means you submitted twice, and the other request is still going through). (simulated)',
        type: 'idempotency_error',
      })
    case '429':
      return answer(429, {
        code: 'rate_limit',
        message: 'Request rate limit exceeded. (simulated)',
        type: 'invalid_request_error',
      })
    case 'lock_timeout':
      return answer(429, {
        code: 'lock_timeout',
        message:
          'This object cannot be accessed right now because another API request or Stripe process is currently accessing it. (simulated)',
        type: 'invalid_request_error',
      })
    case '503':
      return answer(503, { message: 'The server is unavailable. (simulated)', type: 'api_error' })
    default:
      return answer(500, { message: 'An unknown error occurred. (simulated)', type: 'api_error' })
  }
}

/** `/v1/checkout/sessions/cs_1` is read with the permission `rak_checkout_session_read`. */
function missingPermission({ method, path, account }: Refused): string {
  const names = path.split('/').filter((part) => /^[a-z_]+$/.test(part) && !/_(sim|test)/.test(part))
  const resource = names.map((name) => name.replace(/s$/, '')).join('_')
  const permission = `rak_${resource}_${method === 'GET' ? 'read' : 'write'}`
  return `The provided key 'sk_test_*********' does not have the required permissions for this endpoint on account '${account ?? 'acct_simPlatform'}'. Having the '${permission}' permission would allow this request to continue.`
}
