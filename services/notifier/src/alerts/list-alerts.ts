import { messageOf } from '@licensing/grpc/fields'
import { idOf, isId, numberOf } from '@licensing/database/ids'
import { pageOf, rowsFor } from '@licensing/database/page'
import { readMember } from '@licensing/proto/closed-sets'
import { AlertSchema } from '@licensing/proto/notifier'
import type { Alert } from '@licensing/proto/notifier'
import type { Handler } from '../dependencies.ts'
import { findAlerts } from './alert-queries.ts'
import type { Alert as StoredAlert } from './alert-queries.ts'

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

function alertMessage(alert: StoredAlert): Alert {
  return messageOf(AlertSchema, {
    ...alert,
    id: idOf('alrt', alert.created_at, alert.id),
    kind: readMember('alertKind', alert.kind),
    detail: alert.text,
  })
}
