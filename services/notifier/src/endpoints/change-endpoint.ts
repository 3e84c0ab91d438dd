import type { DescMessage } from '@bufbuild/protobuf'
import { audit, changesOf } from '@licensing/changes/audit'
import type { Changes } from '@licensing/changes/audit'
import type { ChangeOptions } from '@licensing/changes/change'
import type { Transaction } from '@licensing/database/connect'
import { EndpointSchema } from '@licensing/proto/notifier'
import { isDeepStrictEqual } from 'node:util'
import type { NotifierDependencies } from '../dependencies.ts'
import { deleteWaiting, lockEndpoint, restoreWaiting, writeEndpoint } from './endpoint-queries.ts'
import type { EndpointChange, EndpointPath, EndpointRow } from './endpoint-queries.ts'
import { endpointDisabled, endpointMessage, endpointNotFound, newEndpoint } from './endpoint.ts'

/**
 * Changes an enabled endpoint. Attempts that start after this call use the new row, on this replica at once.
 *
 * @param columns returns the columns to write, none if nothing changes. The row is locked.
 * @returns the row after the change
 */
export async function changeEndpoint<O extends DescMessage>(
  { change, dispatcher }: Pick<NotifierDependencies, 'change' | 'dispatcher'>,
  path: EndpointPath,
  columns: (before: EndpointRow) => EndpointChange,
  options?: ChangeOptions<O, EndpointRow>,
): Promise<EndpointRow> {
  const changed = await change(async (tx) => {
    const before = await lockEndpoint(tx, path, 'update')
    if (!before) throw endpointNotFound(path.endpointId)
    if (before.status === 'disabled') throw endpointDisabled(path.endpointId)
    const written = columns(before)
    if (Object.keys(written).length === 0) return before
    const after = await writeEndpoint(tx, before.id, written)
    await auditEndpoint(tx, before, after)
    if (after.paused && !before.paused) await deleteWaiting(tx, after.id)
    if (before.paused && !after.paused) await restoreWaiting(tx, after.id)
    return after
  }, options)
  dispatcher.endpointsChanged([changed])
  return changed
}

type AuditedRow = Omit<EndpointRow, 'generation' | 'status' | 'former_secret' | 'former_secret_until'>

/** Appends the entry of the audit log. It shows that a secret or the value of a header has changed, and not the value. */
export async function auditEndpoint(
  tx: Transaction,
  before: AuditedRow | undefined,
  after: AuditedRow,
): Promise<void> {
  const shown = (row: AuditedRow) => endpointMessage({ ...row, ...newEndpoint, created_at: new Date(0) })
  const { plans, ...others } = changesOf(EndpointSchema, before && shown(before), shown(after)) ?? {}
  const isNew = (column: 'encrypted_secret' | 'encrypted_headers') =>
    !isDeepStrictEqual(before?.[column], after[column])
  const changes = {
    ...(isNew('encrypted_headers') && after.encrypted_headers && { headers: newSecret }),
    ...others,
    ...(plans && withoutEmpty(plans)),
    ...(isNew('encrypted_secret') && { secret: newSecret }),
  }
  const { account_id: accountId, application_id: applicationId, id } = after
  await audit(tx, {
    accountId,
    applicationId,
    resourceId: id,
    changes: Object.keys(changes).length > 0 ? changes : undefined,
  })
}

const newSecret = { from: null, to: null }

/** The API shows null if the endpoint gets the events of all plans. */
function withoutEmpty({ from, to }: { from: unknown; to: unknown }): Changes {
  const [was, is] = [from, to].map((plans) => ((plans as string[] | null)?.length ? plans : null))
  return was === is ? {} : { plans: { from: was, to: is } }
}
