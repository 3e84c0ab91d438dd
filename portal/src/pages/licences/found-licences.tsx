import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { useEffect } from 'react'
import { useApplication } from '../../api/applications.ts'
import { searchQuery } from '../../api/licences.ts'
import { useAddress } from '../../parts/address.ts'
import { ReadTable } from '../../parts/table.tsx'
import { words } from '../../parts/text.tsx'
import { licenceColumns } from './licence-columns.tsx'
import type { Searched } from './search-box.tsx'

interface FoundProps {
  planName: (planId: string) => string
  searched: Searched
}

/** At most twenty, best first; the filters narrow them. */
export function FoundLicences({ planName, searched: { text, hide } }: FoundProps) {
  const { appId } = useApplication()
  const [{ status, plan, q }] = useAddress()
  // In characters, as the service counts.
  const isLongEnough = Array.from(text).length >= 2
  const found = useQuery({
    ...searchQuery(appId, text),
    enabled: appId !== '' && isLongEnough,
    placeholderData: keepPreviousData,
  })
  const { data, isPlaceholderData } = found
  const isKey = !isPlaceholderData && data?.data.some(({ matched }) => matched === 'key')
  useEffect(() => {
    if (isKey && q) hide()
  })
  const rows = data?.data
    .filter(({ licence }) => !status || licence.status === status)
    .filter(({ licence }) => !plan || licence.plan_id === plan)
    .map(({ matched, licence }) => ({ ...licence, matched }))
  return (
    <>
      <p role="status" className="visually-hidden">
        {rows &&
          !isPlaceholderData &&
          isLongEnough &&
          (rows.length === 1 ? '1 found' : `${rows.length} found`)}
      </p>
      <ReadTable
        label="Licences"
        of={found}
        columns={[
          ...licenceColumns(planName),
          {
            name: 'Found by',
            cell: ({ matched }) => words(matched === 'external_ref' ? 'customer' : matched),
          },
        ]}
        rows={isLongEnough ? rows : []}
        idOf={({ id }) => id}
        isMoving={isPlaceholderData}
        empty={
          isLongEnough
            ? 'No licence found. Enter the beginning of a customer reference, or the whole value of anything else.'
            : 'Enter at least two characters.'
        }
      />
    </>
  )
}
