import type { DescMessage } from '@bufbuild/protobuf'
import type { ChangeOptions } from '@licensing/changes/change'
import type { NotifierDependencies } from '../dependencies.ts'
import { deleteWaiting, lockEndpoint, restoreWaiting, writeEndpoint } from './endpoint-queries.ts'
import type { EndpointChange, EndpointPath, EndpointRow } from './endpoint-queries.ts'
import { endpointDisabled, endpointNotFound } from './endpoint.ts'

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
    if (after.paused && !before.paused) await deleteWaiting(tx, after.id)
    if (before.paused && !after.paused) await restoreWaiting(tx, after.id)
    return after
  }, options)
  dispatcher.endpointsChanged([changed])
  return changed
}
