const usualSize = 50
const mostRows = 200

/** A page of a list as it is asked for: `beforeId` is the id of the last row of the page before, empty for the first. */
export interface PageRequest {
  limit: number
  beforeId: string
}

/** Rows of a page: 50 if the request gives no limit, at most 200. */
export function pageSize(limit: number): number {
  return limit < 1 ? usualSize : Math.min(limit, mostRows)
}

/** Rows to read for a page: one more than it has, which says whether there are more. */
export function rowsFor(limit: number): number {
  return pageSize(limit) + 1
}

/**
 * Splits the rows that were read for a page into the page and whether there are more.
 *
 * @example
 * const rows = await sql`select … where id < ${beforeId} order by id desc limit ${rowsFor(limit)}`
 * const { page, hasMore } = pageOf(rows, limit)
 */
export function pageOf<Row>(rows: Row[], limit: number): { page: Row[]; hasMore: boolean } {
  const size = pageSize(limit)
  return { page: rows.slice(0, size), hasMore: rows.length > size }
}
