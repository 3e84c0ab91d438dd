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
  /** Options that take a value; `required` ones have to be given. */
  options: Record<string, { required: boolean }>
  /** Options without a value: `true` where given. */
  flags?: string[]
  /** Names of arguments without an option; one that may be left out ends with `?`. */
  positionals?: string[]
  /** Answers the lines to print. */
  run: (admin: AdminDependencies, given: Record<string, string | undefined>) => Promise<string[]>
}

/** The services that consume events. */
export const consumingServices = ['licensing', 'notifier'] as const

export type ConsumingService = (typeof consumingServices)[number]

/** The other services that count what an account may have. */
export type CountingService = 'licensing' | 'billing' | 'notifier'

/** The other services that keep secrets. */
export type KeepingService = 'licensing' | 'notifier'

interface AdminDependencies {
  sql: Database
  /** Calls of a service that consumes events. @throws UsageError where the environment does not name its address */
  deadLetters: (service: ConsumingService) => ServiceClient<typeof DeadLettersService>
  /** Calls of licensing. @throws UsageError where the environment does not name its address */
  rootKeys: () => ServiceClient<typeof RootKeyService>
  /** Calls of a service that counts what accounts may have. @throws UsageError where its address is not named */
  quotas: (service: CountingService) => ServiceClient<typeof QuotaService>
  /** Calls of a service that keeps secrets. @throws UsageError where the environment does not name its address */
  secrets: (service: KeepingService) => ServiceClient<typeof SecretsService>
  /** Calls of billing. @throws UsageError where the environment does not name its address */
  billing: () => ServiceClient<typeof BillingOperationsService>
  /** Where the gateway is reached from outside. */
  publicUrl: string | undefined
  /** Of this command's own environment, where it has one. */
  fee: Partial<Fee>
}

/** The command was called wrongly: reported without a stack, and exit code 2. */
export class UsageError extends Error {}

/** What was asked cannot be done: reported without a stack, and exit code 1. */
export class Refusal extends Error {}

/** A whole number of at least 0, within what the database takes. */
export function wholeNumberOf(option: string, text: string, most: number): number {
  const value = /^[0-9]{1,16}$/.test(text) ? Number(text) : Number.NaN
  if (!Number.isSafeInteger(value) || value > most) {
    throw new UsageError(`--${option} must be a whole number from 0 to ${most}, not ${text}`)
  }
  return value
}
