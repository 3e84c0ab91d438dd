import { isId } from '@licensing/database/ids'
import type { IdPrefix } from '@licensing/database/ids'
import type { PageRequest } from '@licensing/database/page'
import { ServiceError } from '@licensing/grpc/errors'

/** @throws ServiceError `bad_request` where `beforeId` is no id of this kind */
export function checkPage(prefix: IdPrefix, page: PageRequest): void {
  if (page.beforeId === '' || isId(prefix, page.beforeId)) return
  throw new ServiceError(
    'bad_request',
    'the cursor is invalid: send next_cursor of the previous page unchanged',
  )
}
