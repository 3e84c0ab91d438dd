import { useQuery } from '@tanstack/react-query'
import { useParams } from '@tanstack/react-router'
import { useEffect } from 'react'
import { licenceQuery, statusEntryQuery, updateLicence, type LicenceDetail } from '../../api/licences.ts'
import { useSession } from '../../api/session.ts'
import { useAddress } from '../../address.ts'
import { MetadataSection } from '../../parts/metadata-section.tsx'
import { Page } from '../../parts/page.tsx'
import { ReadProblem } from '../../parts/problem.tsx'
import { tones, Waiting } from '../../parts/text.tsx'
import { Activations, RecentCalls } from './activations.tsx'
import { nameOfActor } from './actor.ts'
import { useCanEdit } from './can-edit.ts'
import { Entitlements } from './entitlements.tsx'
import { History } from './history.tsx'
import { LicenceActions } from './licence-actions.tsx'
import styles from './licence.module.css'
import { Deliveries, Payments } from './payments.tsx'
import { statusText } from './status-text.ts'
import { Summary } from './summary.tsx'

export function Route() {
  const { licenceId = '' } = useParams({ strict: false })
  const { can } = useSession()
  const licence = useQuery({ ...licenceQuery(licenceId), enabled: can('read') })
  const statusEntry = useQuery({ ...statusEntryQuery(licenceId), enabled: can('read') })
  const { data, error } = licence
  useItsApplication(data)
  return (
    <Page
      title={data?.external_ref ?? 'Licence'}
      needs={['read']}
      aside={data && <LicenceActions licence={data} />}
    >
      <ReadProblem of={[licence, statusEntry]} />
      {data && <StatusText licence={data} entry={statusEntry.data} isKnown={!statusEntry.isPending} />}
      {data && <Licence licence={data} />}
      {!data && !error && <p role="status">Loading…</p>}
    </Page>
  )
}

function Licence({ licence }: { licence: LicenceDetail }) {
  const canEdit = useCanEdit(licence)
  return (
    <>
      <Summary licence={licence} />
      <Entitlements licence={licence} />
      <MetadataSection
        entries={licence.metadata}
        save={canEdit ? (metadata) => updateLicence(licence.id, { metadata }) : undefined}
      />
      <Activations licence={licence} />
      <RecentCalls licence={licence} />
      <History licence={licence} />
      <Payments licence={licence} />
      <Deliveries licence={licence} />
    </>
  )
}

interface StatusTextProps {
  licence: LicenceDetail
  entry: Parameters<typeof statusText>[0]['entry'] | undefined
  isKnown: boolean
}

/** The state of the licence in a sentence that support staff can read out. */
function StatusText({ licence, entry = null, isKnown }: StatusTextProps) {
  return (
    <p className={`${styles.statusText} ${styles[tones[licence.status]]}`}>
      {isKnown ? (
        statusText({ licence, entry, who: entry ? nameOfActor(entry) : '' })
      ) : (
        <Waiting length="long" />
      )}
    </p>
  )
}

/** Puts the licence's application into the address, because a link to a licence may name another application or none. */
function useItsApplication(licence: LicenceDetail | undefined): void {
  const [{ app }, setAddress] = useAddress()
  const wanted = licence?.application_id
  useEffect(() => {
    if (wanted !== undefined && app !== wanted) setAddress({ app: wanted }, { replace: true })
  })
}
