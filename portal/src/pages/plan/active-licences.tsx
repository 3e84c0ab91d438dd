import { Link } from '@tanstack/react-router'
import type { Plan } from '../../api/plans.ts'
import { useSession } from '../../api/session.ts'
import { count } from '../../parts/text.tsx'

/** The number of active licences, as a link to their list. */
export function ActiveLicences({ of: { id, active_licences: active } }: { of: Plan }) {
  const { can } = useSession()
  if (active === 0 || !can('read')) return count(active)
  return (
    <Link to="/licences" search={{ plan: id, status: 'active' }}>
      {count(active)}
    </Link>
  )
}
