import { isId } from '@licensing/database/ids'
import type { IdPrefix } from '@licensing/database/ids'
import { ServiceError } from '@licensing/grpc/errors'

/** A keyset page as it is asked for: `beforeId` is the last row's id of the page before, empty for the first. */
export interface PageRequest {
  limit: number
  beforeId: string
}

/** @throws ServiceError `bad_request` where `beforeId` is no id of this kind */
export function checkPage(prefix: IdPrefix, page: PageRequest): void {
  if (page.beforeId === '' || isId(prefix, page.beforeId)) return
  throw new ServiceError(
    'bad_request',
    'the cursor is invalid: send next_cursor of the previous page unchanged',
  )
}

/** Rows to read for a page: one more than it shows, which says whether there are more. */
export function rowsFor(limit: number): number {
  return pageSize(limit) + 1
}

/** Splits what was read into the page and whether there is more. */
export function pageOf<Row>(rows: Row[], limit: number): { page: Row[]; hasMore: boolean } {
  const size = pageSize(limit)
  return { page: rows.slice(0, size), hasMore: rows.length > size }
}

function pageSize(limit: number): number {
  return limit > 0 ? Math.min(limit, 1000) : 50
}
