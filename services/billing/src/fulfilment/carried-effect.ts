import type { ServiceError } from '@licensing/grpc/errors'
import type { ErrorCode } from '@licensing/proto/errors'
import type { EffectRow } from './effect-queries.ts'

/** What became of an effect. */
export type Outcome =
  | { applied: { licenceId: string | undefined; status: string | undefined } }
  | { refused: ServiceError }
  | { failed: unknown }

export interface CarriedEffect {
  effect: EffectRow
  outcome: Outcome
}

const passing: ReadonlySet<ErrorCode> = new Set(['unavailable', 'internal', 'rate_limited'])

/** What passes by itself is tried again; what does not needs the vendor. */
export function isPassing(code: ErrorCode): boolean {
  return passing.has(code)
}
