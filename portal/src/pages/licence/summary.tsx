import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import type { LicenceDetail } from '../../api/licences.ts'
import { plansQuery } from '../../api/plans.ts'
import { factsOf } from '../licences/licence-fields.tsx'
import { Copy } from '../../parts/copy.tsx'
import { Facts } from '../../parts/facts.tsx'
import { None, Status, Time, words } from '../../parts/text.tsx'
import { useCanEdit } from './can-edit.ts'
import { Extend } from './extend.tsx'
import styles from './licence.module.css'
import { NewKey } from './new-key.tsx'

export function Summary({ licence }: { licence: LicenceDetail }) {
  const { status, status_reason: reason, plan_id: planId, expires_on: expiresOn } = licence
  const { data: plans } = useQuery(plansQuery(licence.application_id))
  const plan = plans?.find(({ id }) => id === planId)
  const canEdit = useCanEdit(licence)
  const facts = factsOf(licence)
  return (
    <>
      <div className={styles.key}>
        <Copy name="Copy key" text={licence.key} />
        {canEdit && <NewKey licence={licence} />}
      </div>
      <Facts
        of={{
          Status: (
            <>
              <Status of={status} /> {licence.trial && <Status of="trial" />}{' '}
              {reason && <None>{words(reason)}</None>}
            </>
          ),
          Plan: (
            <Link to="/plans/$planId" params={{ planId }}>
              {plan?.name ?? planId}
            </Link>
          ),
          ...facts,
          'Expires on': (
            <>
              {facts['Expires on']}
              {canEdit && expiresOn !== null && <Extend licence={licence} />}
            </>
          ),
          Created: <Time at={licence.created_at} />,
          'Legacy key': licence.legacy_key ? <code>{licence.legacy_key}</code> : <None>none</None>,
          Id: <code>{licence.id}</code>,
        }}
      />
    </>
  )
}
