/**
 * The error catalogue: for each error code, its gRPC status between services, its HTTP status at the gateway, and what
 * its reader should do. `GET /errors/{code}` at the gateway shows these texts.
 */
export interface ErrorKind {
  /** Numeric gRPC status code. */
  grpc: number
  /** HTTP status. */
  http: number
  title: string
  meaning: string
  remedy: string
}

const kinds = {
  bad_request: {
    grpc: 3,
    http: 400,
    title: 'Bad request',
    meaning: 'The request is not well-formed HTTP, its body is not JSON, or the page cursor is invalid.',
    remedy: 'Send valid HTTP and JSON; pass `next_cursor` unchanged as the cursor.',
  },
  idempotency_key_required: {
    grpc: 3,
    http: 400,
    title: 'Idempotency key required',
    meaning: 'Issuing a licence needs the header `Idempotency-Key`, 1 to 255 characters.',
    remedy: 'Send a unique key for each licence, such as your order number, and the same key when you retry.',
  },
  unauthenticated: {
    grpc: 16,
    http: 401,
    title: 'Unauthenticated',
    meaning: 'The API key or token is missing, malformed, unknown or revoked.',
    remedy: 'Send `Authorization: Bearer <key>` with an active key.',
  },
  insufficient_scope: {
    grpc: 7,
    http: 403,
    title: 'Insufficient scope',
    meaning: 'The API key is valid, but lacks the scope that this request needs.',
    remedy: 'Use a key with the scope named in `detail`.',
  },
  origin_refused: {
    grpc: 7,
    http: 403,
    title: 'Origin refused',
    meaning:
      'The portal’s session cookie was sent from another origin, or the gateway does not know its public address.',
    remedy:
      'Call the API with an API key in `Authorization`. If the portal itself gets this error, configure the proxy to keep `Host`, or set `PUBLIC_URL` to the address in the browser.',
  },
  licence_refused: {
    grpc: 7,
    http: 403,
    title: 'Licence refused',
    meaning:
      'The licence does not allow the product to run on this host at this time; `reason` says why. `trial_used`: this machine has had its trial.',
    remedy: 'Show the reason to the user. The vendor can change the licence’s status or its domains.',
  },
  not_found: {
    grpc: 5,
    http: 404,
    title: 'Not found',
    meaning: 'There is no such route or resource, or it belongs to another account or application.',
    remedy: 'Check the path and its ids, and that the key belongs to the same account.',
  },
  method_not_allowed: {
    grpc: 12,
    http: 405,
    title: 'Method not allowed',
    meaning: 'The path exists, but does not support this method.',
    remedy: 'Use one of the methods in the `Allow` header.',
  },
  conflict: {
    grpc: 9,
    http: 409,
    title: 'Conflict',
    meaning:
      'The state of the resource does not allow this; `current` is its state, `allowed` lists the verbs that are possible.',
    remedy: 'Read the resource again and choose one of the verbs in `allowed`.',
  },
  plan_archived: {
    grpc: 9,
    http: 409,
    title: 'Plan archived',
    meaning:
      'The plan is retired: no licence can be issued, sold or reactivated on it, and no trial started.',
    remedy: 'Restore the plan first, or use another plan.',
  },
  idempotency_mismatch: {
    grpc: 6,
    http: 409,
    title: 'Idempotency mismatch',
    meaning: 'This idempotency key or sale id was already used with a different body.',
    remedy: 'Use a new key for a new request; retry a request with the same body.',
  },
  already_exists: {
    grpc: 6,
    http: 409,
    title: 'Already exists',
    meaning:
      'The entitlement key, plan code, price or processor account is already in use, or a deleted key is defined again with another kind.',
    remedy: 'Use the existing one, or choose another name.',
  },
  spend_cap_reached: {
    grpc: 9,
    http: 409,
    title: 'Spend cap reached',
    meaning: 'The monthly cap on transaction fees is reached; new checkouts that cost a fee are paused.',
    remedy: 'Raise or remove the cap with `PUT /v1/spend-cap`, or wait for the next UTC month.',
  },
  limit_reached: {
    grpc: 8,
    http: 409,
    title: 'Limit reached',
    meaning:
      'The licence has reached its maximum number of activations, or all leases of a floating licence are held. A licence file counts until it ends. After ten deactivations and releases by products on one UTC day, each further one counts until its last token ends; `detail` says until when.',
    remedy:
      'Deactivate or release another installation, wait until the time in `detail`, or ask the vendor to free an activation or to allow more.',
  },
  quota_exceeded: {
    grpc: 8,
    http: 409,
    title: 'Quota exceeded',
    meaning: 'A quota is reached: of the account, or of new trials on one UTC day; `limit` is the quota.',
    remedy:
      'Remove one that you no longer need, or ask the operator to raise the quota. Start trials on the next day.',
  },
  payload_expired: {
    grpc: 9,
    http: 410,
    title: 'Payload expired',
    meaning: 'The payload of this delivery was deleted after 90 days and cannot be sent again.',
    remedy: 'Fetch the current state of the licence with `GET /v1/licences/{licence_id}`.',
  },
  payload_too_large: {
    grpc: 3,
    http: 413,
    title: 'Payload too large',
    meaning:
      'The body is over 1 MiB (an import: 2 MiB; calls of products: 16 KiB; events of the processor: 256 KiB).',
    remedy: 'Split the request into smaller ones, or send less.',
  },
  unsupported_media_type: {
    grpc: 3,
    http: 415,
    title: 'Unsupported media type',
    meaning: 'The body is not `application/json`.',
    remedy: 'Send `Content-Type: application/json`.',
  },
  account_moved: {
    grpc: 9,
    http: 421,
    title: 'Account moved',
    meaning: 'The account is served at another address, which is in `address`. Nothing was done.',
    remedy: 'Send the request to `address`, with the same key and the same `Idempotency-Key`.',
  },
  validation_failed: {
    grpc: 3,
    http: 422,
    title: 'Validation failed',
    meaning: 'The request is well-formed, but a field is invalid; `errors` lists each invalid field.',
    remedy: 'Correct the fields in `errors`. Nothing was changed.',
  },
  rate_limited: {
    grpc: 8,
    http: 429,
    title: 'Rate limited',
    meaning: 'Too many requests in the current rate limit window.',
    remedy: 'Retry after the number of seconds in `Retry-After`.',
  },
  internal: {
    grpc: 13,
    http: 500,
    title: 'Internal error',
    meaning: 'The service failed to process the request; the error is logged with the `request_id`.',
    remedy: 'Retry; if the error persists, report the `request_id`.',
  },
  unavailable: {
    grpc: 14,
    http: 503,
    title: 'Unavailable',
    meaning:
      'The service is temporarily unavailable, or request bodies arrive faster than it can hold them. A change that did not complete is never reported as done.',
    remedy: 'Retry after the number of seconds in `Retry-After`.',
  },
} as const satisfies Record<string, ErrorKind>

/** A code of the error catalogue. */
export type ErrorCode = keyof typeof kinds

export const errorCatalogue: Readonly<Record<ErrorCode, ErrorKind>> = kinds

/** Whether a string is a code of the catalogue. */
export function isErrorCode(code: string): code is ErrorCode {
  return Object.hasOwn(kinds, code)
}
