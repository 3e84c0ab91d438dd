import { useQuery } from '@tanstack/react-query'
import { useApplication } from '../../api/applications.ts'
import { plansQuery } from '../../api/plans.ts'
import { useSession } from '../../api/session.ts'
import { useAddress } from '../../address.ts'
import { Button } from '../../parts/button.tsx'
import { Filters } from '../../parts/filters.tsx'
import { Actions, Page } from '../../parts/page.tsx'
import { ExportLicences, ExportProgress } from './export-licences.tsx'
import { LicenceFilterFields } from './licence-filters.tsx'
import { FoundLicences, ListedLicences } from './licence-tables.tsx'
import { IssueLicence } from './issue-licence.tsx'
import { SearchBox, useSearchedText } from './search-box.tsx'

export function Route() {
  const { appId } = useApplication()
  const { can } = useSession()
  const [, setAddress] = useAddress()
  const searched = useSearchedText()
  const isReader = can('read')
  const plans = useQuery({ ...plansQuery(appId), enabled: appId !== '' && isReader })
  const planName = (id: string) => plans.data?.find((plan) => plan.id === id)?.name ?? id
  return (
    <Page
      title="Licences"
      needs={['read', 'issue']}
      aside={
        <Actions>
          {isReader && searched.text === '' && <ExportLicences planName={planName} />}
          {can('issue') && (
            <Button kind="primary" onClick={() => setAddress({ open: 'issue' })}>
              Issue licence
            </Button>
          )}
        </Actions>
      }
    >
      {isReader ? (
        <>
          <Filters>
            <SearchBox searched={searched} />
            <LicenceFilterFields plans={plans.data ?? []} />
          </Filters>
          <ExportProgress planName={planName} />
          {searched.text === '' ? (
            <ListedLicences planName={planName} />
          ) : (
            <FoundLicences planName={planName} searched={searched} />
          )}
        </>
      ) : (
        <p>
          The list of licences needs a key with the scope <code>read</code>.
        </p>
      )}
      {can('issue') && <IssueLicence />}
    </Page>
  )
}
