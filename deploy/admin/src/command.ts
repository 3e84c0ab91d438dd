import type { DescService } from '@bufbuild/protobuf'
import type { ServiceClient } from '@licensing/grpc/client'
import type { Callee } from '@licensing/proto/callers'

/** A command of licensing-admin. */
export interface Command {
  /** Arguments as help shows them. */
  synopsis: string
  summary: string
  /** Options with a value. */
  options: Record<string, { required: boolean }>
  /** Options without a value: `true` if given. */
  flags?: string[]
  /** Names of positional arguments. The name of an optional argument ends with `?`. */
  positionals?: string[]
  /** Returns an object for each line to print. */
  run: (admin: AdminDependencies, given: Record<string, string | undefined>) => Promise<object[]>
}

export interface AdminDependencies {
  /** Calls of the service that owns the data. @throws UsageError if its address is not set in the environment */
  callsOf: <S extends DescService>(callee: Callee, service: S) => ServiceClient<S>
  /** As `callsOf`, for the services of another cell (`TO_…`). */
  callsThere: <S extends DescService>(callee: Callee, service: S) => ServiceClient<S>
  /** The public address of the gateway. */
  publicUrl: string | undefined
  /** The fee of new accounts in the environment of this command, if any. */
  fee: { feeBps?: number; feeFixedMinor?: bigint }
}

/** The command was called with wrong arguments: reported without a stack, with exit code 2. */
export class UsageError extends Error {}

/** The command cannot be carried out: reported without a stack, with exit code 1. */
export class Refusal extends Error {}

/** Reads a whole number from 0 to `max`. */
export function wholeNumberOf(option: string, text: string, max: number): number {
  const value = /^[0-9]{1,16}$/.test(text) ? Number(text) : Number.NaN
  if (!Number.isSafeInteger(value) || value > max) {
    throw new UsageError(`--${option} must be a whole number from 0 to ${max}, not ${text}`)
  }
  return value
}

/** Reads `--service`. @returns all of `known` if the option was not given */
export function servicesOf<Name extends Callee>(
  known: readonly Name[],
  given: string | undefined,
): readonly Name[] {
  if (given === undefined) return known
  const service = known.find((name) => name === given)
  if (!service) throw new UsageError(`--service must be ${known.join(' or ')}, not ${given}`)
  return [service]
}
