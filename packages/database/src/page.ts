const defaultSize = 50
const maxRows = 200

/** Request for a page of a list. `beforeId` is the id of the last row of the page before; empty for the first page. */
export interface PageRequest {
  limit: number
  beforeId: string
}

/** Number of rows of a page: 50 if the request has no limit, and at most 200. */
export function pageSize(limit: number): number {
  return limit < 1 ? defaultSize : Math.min(limit, maxRows)
}

/** Number of rows to read for a page. The additional row shows whether there are more. */
export function rowsFor(limit: number): number {
  return pageSize(limit) + 1
}

/**
 * Returns the page of the rows that were read for it, and whether there are more.
 *
 * @example
 * const rows = await sql`select … where id < ${beforeId} order by id desc limit ${rowsFor(limit)}`
 * const { page, hasMore } = pageOf(rows, limit)
 */
export function pageOf<Row>(rows: Row[], limit: number): { page: Row[]; hasMore: boolean } {
  const size = pageSize(limit)
  return { page: rows.slice(0, size), hasMore: rows.length > size }
}
