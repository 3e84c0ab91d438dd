import { useApplication } from '../../api/applications.ts'
import { licenceList, licenceStatuses } from '../../api/licences.ts'
import { oneOf } from '../../api/paged-list.ts'
import { useAddress } from '../../parts/address.ts'
import { usePages } from '../../parts/pages.ts'
import { PagedTable } from '../../parts/table.tsx'
import { licenceColumns } from './licence-columns.tsx'

export function ListedLicences({ planName }: { planName: (planId: string) => string }) {
  const { appId } = useApplication()
  const [{ status, plan }] = useAddress()
  const list = licenceList(appId, { status: oneOf(licenceStatuses, status), plan })
  const page = usePages('page', list, { enabled: appId !== '' })
  return (
    <PagedTable
      label="Licences"
      columns={licenceColumns(planName)}
      page={page}
      idOf={({ id }) => id}
      empty={
        status || plan
          ? 'No licence matches these filters.'
          : 'There are no licences yet. Issue one here, import existing ones, or sell through checkout.'
      }
    />
  )
}
