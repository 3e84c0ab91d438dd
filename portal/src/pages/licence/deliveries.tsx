import { useQuery } from '@tanstack/react-query'
import type { LicenceDetail } from '../../api/licences.ts'
import { deliveryList, endpointsQuery } from '../../api/webhooks.ts'
import { Section } from '../../parts/page.tsx'
import { usePages } from '../../parts/pages.ts'
import { PagedTable } from '../../parts/table.tsx'
import { deliveryColumns } from '../webhooks/delivery-columns.tsx'

const REFRESH_MS = 5000

/** What the vendor's backend was sent about the licence. */
export function Deliveries({ licence: { id: licence, application_id: appId } }: { licence: LicenceDetail }) {
  const page = usePages('deliveries', deliveryList(appId, { licence }), { refreshMs: REFRESH_MS })
  const { data: endpoints } = useQuery(endpointsQuery(appId))
  return (
    <Section title="Deliveries">
      <PagedTable
        label="Deliveries"
        columns={deliveryColumns(endpoints ?? [])}
        page={page}
        idOf={({ id }) => id}
        empty="No webhook was sent about it: issue and import send none, and events go to endpoints that were there."
      />
    </Section>
  )
}
