import { keepPreviousData, useQuery } from '@tanstack/react-query'
import { useEffect } from 'react'
import { Link } from '@tanstack/react-router'
import { useApplication } from '../../api/applications.ts'
import { licenceList, MAX_FOUND, searchQuery } from '../../api/licences.ts'
import type { Licence } from '../../api/licences.ts'
import { useAddress } from '../../address.ts'
import { usePages } from '../../parts/pages.ts'
import { PagedTable, ReadTable } from '../../parts/table.tsx'
import type { Column } from '../../parts/table.tsx'
import { Clipped, words, Status, Time } from '../../parts/text.tsx'
import { matches, useLicenceFilters } from './licence-filters.tsx'
import type { Searched } from './search-box.tsx'
import styles from './licences.module.css'

export function ListedLicences({ planName }: { planName: (planId: string) => string }) {
  const { appId } = useApplication()
  const { filters, isFiltered } = useLicenceFilters()
  const page = usePages('page', licenceList(appId, filters), { enabled: appId !== '' })
  return (
    <PagedTable
      label="Licences"
      columns={licenceColumns(planName)}
      page={page}
      idOf={({ id }) => id}
      empty={
        isFiltered
          ? 'No licence matches these filters.'
          : 'There are no licences yet. Issue one here, import existing ones, or sell through checkout.'
      }
    />
  )
}

interface FoundProps {
  planName: (planId: string) => string
  searched: Searched
}

/** The results of a search, reduced by the filters. */
export function FoundLicences({ planName, searched: { text, hide } }: FoundProps) {
  const { appId } = useApplication()
  const [{ q }] = useAddress()
  const { filters } = useLicenceFilters()
  // Counts code points, as the service does.
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
  const isCutOff = isLongEnough && data?.data.length === MAX_FOUND
  const rows = data?.data
    .filter(({ licence }) => matches(licence, filters))
    .map(({ matched, licence }) => ({ ...licence, matched }))
  return (
    <>
      <p role="status" className="visually-hidden">
        {rows &&
          !isPlaceholderData &&
          isLongEnough &&
          (rows.length === 1 ? '1 found' : `${rows.length} found`)}
      </p>
      {isCutOff && (
        <p className={styles.cutOff}>
          These are only the first {MAX_FOUND} that were found, the best first
          {rows && rows.length < MAX_FOUND && ', of which the filters leave out some'}. Enter more of the
          text, or clear the search and use the filters, which go through all licences.
        </p>
      )}
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

function licenceColumns(planName: (planId: string) => string): Column<Licence>[] {
  return [
    {
      name: 'Customer reference',
      cell: ({ id, external_ref }) => (
        <Link to="/licences/$licenceId" params={{ licenceId: id }}>
          <Clipped text={external_ref} narrow />
        </Link>
      ),
    },
    {
      name: 'Status',
      cell: ({ status, trial }) => (
        <span>
          <Status of={status} /> {trial && <Status of="trial" />}
        </span>
      ),
    },
    { name: 'Plan', cell: ({ plan_id }) => <Clipped text={planName(plan_id)} narrow /> },
    { name: 'Key', cell: ({ key }) => <code className={styles.key}>{key}</code> },
    { name: 'Expires on', cell: ({ expires_on }) => <Time at={expires_on} to="day" none="never" /> },
    { name: 'Created', cell: ({ created_at }) => <Time at={created_at} to="day" /> },
  ]
}
