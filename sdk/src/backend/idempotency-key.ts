/**
 * A new `Idempotency-Key`. Keep it with what the call is for before making the call, and use it for every repetition.
 * An id of your own that stands for exactly one licence, like an order's, does as well.
 *
 * @example order.idempotencyKey ??= newIdempotencyKey()
 */
export function newIdempotencyKey(): string {
  return crypto.randomUUID()
}
