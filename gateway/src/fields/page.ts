import { ServiceError } from '@licensing/grpc/errors'
import { z } from 'zod'
import { isId } from './id.ts'
import type { IdPrefix } from './id.ts'

const maxRows = 200
const usualRows = 50
const version = '1'

/** `limit` of a list. */
export const limit = z
  .string()
  .meta({
    type: 'integer',
    minimum: 1,
    maximum: maxRows,
    default: usualRows,
    description: 'Maximum number of rows on a page.',
  })
  .transform((text, context) => {
    const rows = /^[1-9][0-9]{0,2}$/.test(text) ? Number(text) : 0
    if (rows >= 1 && rows <= maxRows) return rows
    context.addIssue({ code: 'custom', message: `must be a whole number from 1 to ${maxRows}` })
    return z.NEVER
  })
  .default(usualRows)

/** `cursor` of a list whose rows have ids: the id of the last row of the page before, empty for the first page. */
export function idCursor(prefix: IdPrefix) {
  return cursor((last) => (isId(prefix, last) ? last : undefined), '')
}

/** `cursor` of a list whose rows are numbered. */
export const positionCursor = cursor(
  (last) => (/^[1-9][0-9]{0,17}$/.test(last) ? BigInt(last) : undefined),
  0n,
)

/** The cursor of the page after the row `last`. */
export function cursorAfter(last: string): string {
  return Buffer.from(version + last, 'latin1').toString('base64url')
}

/** The schema of a page. */
export function pageOf<S extends z.ZodType>(row: S) {
  return z.strictObject({
    data: z.array(row),
    next_cursor: z.string().nullable().describe('Cursor of the next page; null on the last page.'),
  })
}

/**
 * A page of rows.
 *
 * @param last returns the id or number of a row, for the cursor of the next page
 * @param lookedUntil the id after which the next page begins, if this page ended before it was full
 */
export function page<Row>(data: Row[], hasMore: boolean, last: (row: Row) => string, lookedUntil?: string) {
  const lastRow = data.at(-1)
  const after = lookedUntil ?? (lastRow && last(lastRow))
  return { data, next_cursor: hasMore && after !== undefined ? cursorAfter(after) : null }
}

export const emptyPage = { data: [], next_cursor: null }

function cursor<T>(read: (last: string) => T | undefined, first: T) {
  return z
    .string()
    .meta({ description: '`next_cursor` of the previous page. Omit it for the first page.' })
    .transform((text): T => {
      const decoded = Buffer.from(text, 'base64url').toString('latin1')
      const last = decoded.startsWith(version) ? read(decoded.slice(version.length)) : undefined
      if (last !== undefined && cursorAfter(decoded.slice(version.length)) === text) return last
      // An invalid cursor is 400 rather than a validation error, because it did not come from this API.
      throw new ServiceError(
        'bad_request',
        'the cursor is invalid: send next_cursor of the previous page unchanged',
      )
    })
    .default(first as never)
}
