import type { MessageInitShape } from '@bufbuild/protobuf'
import { timestampFromDate } from '@bufbuild/protobuf/wkt'
import { idOf, isId, numberOf } from '@licensing/database/ids'
import { pageOf, rowsFor } from '@licensing/database/page'
import { readMember } from '@licensing/proto/closed-sets'
import type { AlertSchema } from '@licensing/proto/notifier'
import type { Handler } from '../dependencies.ts'
import { findAlerts } from './alert-queries.ts'
import type { Alert } from './alert-queries.ts'

export const listAlerts: Handler<'listAlerts'> = async (
  { sql },
  { accountId, onlyApplicationId, limit, beforeId },
) => {
  if (beforeId !== '' && !isId('alrt', beforeId)) return { alerts: [], hasMore: false }
  const rows = await findAlerts(sql, {
    accountId,
    ...(onlyApplicationId !== undefined && { applicationId: onlyApplicationId }),
    ...(beforeId && { beforeId: numberOf(beforeId) }),
    limit: rowsFor(limit),
  })
  const { page, hasMore } = pageOf(rows, limit)
  return { alerts: page.map(alertMessage), hasMore }
}

function alertMessage(alert: Alert): MessageInitShape<typeof AlertSchema> {
  const { application_id: applicationId, endpoint_id: endpointId, mailed_at: mailedAt } = alert
  return {
    id: idOf('alrt', alert.created_at, alert.id),
    kind: readMember('alertKind', alert.kind),
    ...(applicationId !== null && { applicationId }),
    ...(endpointId !== null && { endpointId }),
    detail: alert.text,
    createdAt: timestampFromDate(alert.created_at),
    ...(mailedAt && { mailedAt: timestampFromDate(mailedAt) }),
  }
}
