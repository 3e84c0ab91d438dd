import { messageOf } from '@licensing/grpc/fields'
import type { MessageInitShape } from '@bufbuild/protobuf'
import { pageOf } from '@licensing/database/page'
import { ActivationSchema } from '@licensing/proto/licensing'
import type {
  Activation,
  ListActivationsRequest,
  ListActivationsResponseSchema,
} from '@licensing/proto/licensing'
import type { LicensingDependencies } from '../dependencies.ts'
import { licenceNotFound } from '../lifecycle/refusals.ts'
import { listActivationRows } from './activation-queries.ts'
import type { ActivationRow } from './activation-queries.ts'

export async function listActivations(
  { sql }: LicensingDependencies,
  request: ListActivationsRequest,
): Promise<MessageInitShape<typeof ListActivationsResponseSchema>> {
  const rows = await listActivationRows(sql, request, request)
  if (!rows) throw licenceNotFound(request)
  const { page, hasMore } = pageOf(rows, request.limit)
  return { activations: page.map(activationMessage), hasMore }
}

export function activationMessage(row: ActivationRow): Activation {
  return messageOf(ActivationSchema, row)
}
