import { fileURLToPath } from 'node:url'

/** The services that own a database. */
export const DATABASE_SERVICES = ['catalog', 'licensing', 'billing', 'notifier'] as const
export type DatabaseService = (typeof DATABASE_SERVICES)[number]
export type ServiceName = DatabaseService | 'gateway'

/** Absolute path of the checkout. */
export const CHECKOUT = fileURLToPath(new URL('../../..', import.meta.url))

/** Absolute path of the file that starts a service. */
export function mainOf(service: ServiceName): string {
  const folder = service === 'gateway' ? 'gateway' : `services/${service}`
  return fileURLToPath(new URL(`../../../${folder}/src/main.ts`, import.meta.url))
}
