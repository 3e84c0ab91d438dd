const usualSize = 50
const mostRows = 200

/** How many rows a page has; the gateway refuses other sizes before. */
export function pageSize(limit: number): number {
  return limit <= 0 ? usualSize : Math.min(limit, mostRows)
}

/** Splits what was read for a page, one row more than its size, into the page and whether there is more. */
export function toPage<Row>(rows: Row[], size: number): { rows: Row[]; hasMore: boolean } {
  return { rows: rows.slice(0, size), hasMore: rows.length > size }
}
