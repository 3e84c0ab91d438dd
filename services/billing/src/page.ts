/** A keyset page as it is asked for: `beforeId` is the last row's id of the page before, empty for the first. */
export interface PageRequest {
  limit: number
  beforeId: string
}

const usual = 50
const most = 200

function sizeOf(limit: number): number {
  return limit < 1 ? usual : Math.min(limit, most)
}

/** Rows to read for a page: one more than it shows, which says whether there are more. */
export function rowsFor(limit: number): number {
  return sizeOf(limit) + 1
}

/** Splits what was read into the page and whether there is more. */
export function pageOf<Row>(rows: Row[], limit: number): { page: Row[]; hasMore: boolean } {
  const size = sizeOf(limit)
  return { page: rows.slice(0, size), hasMore: rows.length > size }
}
