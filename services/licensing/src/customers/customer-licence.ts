import { create } from '@bufbuild/protobuf'
import type { MessageInitShape } from '@bufbuild/protobuf'
import type { EmptySchema } from '@bufbuild/protobuf/wkt'
import type { Transaction } from '@licensing/database/connect'
import { ServiceError } from '@licensing/grpc/errors'
import type {
  CustomerLicenceSchema,
  FreeCustomerActivationRequest,
  GetCustomerLicenceRequest,
} from '@licensing/proto/customers'
import { GetLicenceRequestSchema } from '@licensing/proto/licensing'
import type { GetLicenceRequest, LicenceDetailSchema } from '@licensing/proto/licensing'
import {
  byCustomer,
  countToday,
  fileEndOf,
  freeActivations,
  lockLicence,
} from '../activations/freeing-queries.ts'
import type { LicensingDependencies } from '../dependencies.ts'
import { findCustomerFacts } from './customer-queries.ts'

type GetLicence = (request: GetLicenceRequest) => Promise<MessageInitShape<typeof LicenceDetailSchema>>

/** The licence as its customer's page shows it. */
export async function getCustomerLicence(
  { sql }: LicensingDependencies,
  getLicence: GetLicence,
  { accountId, licenceId }: GetCustomerLicenceRequest,
): Promise<MessageInitShape<typeof CustomerLicenceSchema>> {
  const [detail, facts] = await Promise.all([
    getLicence(create(GetLicenceRequestSchema, { accountId, licenceId })),
    findCustomerFacts(sql, licenceId),
  ])
  return {
    detail,
    freedToday: facts.freed,
    ...(facts.purchase_ref !== null && { purchaseRef: facts.purchase_ref }),
  }
}

/** The customer frees a machine, at most so many a UTC day (docs/guides/customers.md, "What the customer can do"). */
export async function freeCustomerActivation(
  { change }: LicensingDependencies,
  request: FreeCustomerActivationRequest,
): Promise<MessageInitShape<typeof EmptySchema>> {
  await change((tx) => free(tx, request))
  return {}
}

async function free(tx: Transaction, request: FreeCustomerActivationRequest): Promise<void> {
  const { licenceId, activationId, maxPerDay } = request
  const licence = await lockLicence(tx, request)
  const file = licence && (await fileEndOf(tx, licenceId, activationId))
  if (!licence || !file) {
    throw new ServiceError(
      'not_found',
      `this licence has no activation ${activationId}: it was removed already`,
    )
  }
  if (file.until) {
    throw new ServiceError(
      'conflict',
      `this machine has a licence file that is valid until ${file.until.toISOString()}: it can be removed after that time`,
    )
  }
  if (!(await countToday(tx, licenceId, 'customer', maxPerDay))) {
    throw new ServiceError(
      'quota_exceeded',
      `at most ${maxPerDay} machines can be removed from this licence a day (UTC): try again tomorrow, or ask the vendor`,
      { members: { limit: maxPerDay } },
    )
  }
  await freeActivations(tx, licence, [activationId], byCustomer)
}
