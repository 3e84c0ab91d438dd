import { isOver, type LicenceDetail } from '../../api/licences.ts'
import { useSession } from '../../api/session.ts'

/** Whether the signed-in key may change the licence, and its status allows changes. */
export function useCanEdit({ status }: LicenceDetail): boolean {
  const { can } = useSession()
  return can('issue') && !isOver[status]
}
