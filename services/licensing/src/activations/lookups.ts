import type { Database } from '@licensing/database/connect'
import { isDatabaseUnavailable } from '@licensing/database/problems'
import { createBatcher } from '@licensing/changes/batcher'
import { findByLegacyKeys } from './legacy-key-queries.ts'
import type { ImportedLicence } from './legacy-key-queries.ts'
import { findPlansOfCodes } from '../plans/plan-queries.ts'
import { findLicencesOfKeys } from './activation-queries.ts'
import type { LicenceOfMachine, Machine } from './activation-queries.ts'

/**
 * Look-ups of keys and codes that products send and that may not exist. They share statements, one at a time, on a
 * connection of their own: products with valid keys do not wait, however many wrong keys arrive.
 */
export interface Lookups {
  /** The licence of a key, with the activation of a machine. */
  licenceOf: (machine: Machine) => Promise<LicenceOfMachine | undefined>
  imported: (asked: { applicationId: string; legacyKey: string }) => Promise<ImportedLicence | undefined>
  /** The id of the plan with a code. */
  planOfCode: (asked: { applicationId: string; code: string }) => Promise<string | undefined>
}

const batches = { maxBatchSize: 500, isTransient: isDatabaseUnavailable }

/** @param sql one connection */
export function createLookups(sql: Database): Lookups {
  return {
    licenceOf: createBatcher((machines) => findLicencesOfKeys(sql, machines), batches),
    imported: createBatcher((asked) => findByLegacyKeys(sql, asked), batches),
    planOfCode: createBatcher((asked) => findPlansOfCodes(sql, asked), batches),
  }
}
