import type { Database } from '@licensing/database/connect'
import type { ServiceClient } from '@licensing/grpc/client'
import type { BillingOperationsService } from '@licensing/proto/billing-operations'
import type { DeadLettersService } from '@licensing/proto/dead-letters'
import type { QuotaService } from '@licensing/proto/quota-service'
import type { SecretsService } from '@licensing/proto/secrets'
import type { RootKeyService } from '@licensing/proto/root-keys'
import type { Fee } from '../accounts/account-queries.ts'

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
  /** Returns the lines to print. */
  run: (admin: AdminDependencies, given: Record<string, string | undefined>) => Promise<string[]>
}

/** The services that consume events. */
export const consumingServices = ['licensing', 'notifier'] as const

export type ConsumingService = (typeof consumingServices)[number]

/** The other services that check quotas. */
export type CountingService = 'licensing' | 'billing' | 'notifier'

/** The other services that store secrets. */
export type KeepingService = 'licensing' | 'notifier'

interface AdminDependencies {
  sql: Database
  /** Calls of a service that consumes events. @throws UsageError if its address is not set in the environment */
  deadLetters: (service: ConsumingService) => ServiceClient<typeof DeadLettersService>
  /** Calls of licensing. @throws UsageError if its address is not set in the environment */
  rootKeys: () => ServiceClient<typeof RootKeyService>
  /** Calls of a service that checks quotas. @throws UsageError if its address is not set in the environment */
  quotas: (service: CountingService) => ServiceClient<typeof QuotaService>
  /** Calls of a service that stores secrets. @throws UsageError if its address is not set in the environment */
  secrets: (service: KeepingService) => ServiceClient<typeof SecretsService>
  /** Calls of billing. @throws UsageError if its address is not set in the environment */
  billing: () => ServiceClient<typeof BillingOperationsService>
  /** The public address of the gateway. */
  publicUrl: string | undefined
  /** The fee in the environment of this command, if any. */
  fee: Partial<Fee>
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
