import { api } from '../../api/client.ts'
import { licenceQuery, type LicenceDetail } from '../../api/licences.ts'
import { useAddress } from '../../address.ts'
import { Button } from '../../parts/button.tsx'
import { ConfirmButton, ReadNow } from '../../parts/dialog.tsx'
import { Section } from '../../parts/page.tsx'
import { Table, type Column } from '../../parts/table.tsx'
import { None, Status, Time } from '../../parts/text.tsx'
import { useCanEdit } from './can-edit.ts'
import { entitlementRows, type EntitlementRow } from './entitlement-rows.ts'
import styles from './licence.module.css'
import { OverrideDialog } from './override-dialog.tsx'

/** The current values for products, each with its source: the snapshot of the issue, an override, or a default. */
export function Entitlements({ licence }: { licence: LicenceDetail }) {
  const canEdit = useCanEdit(licence)
  const drifted = licence.plan_drift.length
  return (
    <Section title="Entitlements" actions={canEdit && <TakePlanValues licence={licence} />}>
      {drifted > 0 && (
        <p>
          {drifted === 1 ? 'One entitlement differs' : `${drifted} entitlements differ`} from the plan’s
          current values. A licence keeps the values with which it was issued until it takes those of the
          plan.
        </p>
      )}
      <Table
        label="Entitlements"
        columns={[...columns, ...(canEdit ? [actionsOf(licence)] : [])]}
        rows={entitlementRows(licence)}
        idOf={({ key }) => key}
        empty="When it was issued, the application had no entitlement definitions."
      />
      {canEdit && <OverrideDialog licence={licence} />}
    </Section>
  )
}

const columns: readonly Column<EntitlementRow>[] = [
  {
    name: 'Key',
    wrap: true,
    cell: ({ key, kind }) => (
      <span>
        <code>{key}</code> <None>{kind}</None>
      </span>
    ),
  },
  {
    name: 'Effective',
    cell: ({ effective }) =>
      effective ? (
        <span>
          <strong>{effective.value}</strong> <Status of={effective.from} />
        </span>
      ) : (
        <None>none</None>
      ),
  },
  { name: 'Snapshot', cell: ({ snapshot, plan }) => <Value of={snapshot} isDrifted={plan !== undefined} /> },
  {
    name: 'Plan',
    cell: ({ plan, snapshot }) =>
      plan === undefined ? <None>{snapshot ?? '–'}</None> : <Value of={plan} isDrifted />,
  },
  {
    name: 'Override',
    wrap: true,
    cell: ({ override }) => {
      if (!override) return <None />
      const { value, ends_on: end, note } = override
      const hasEnded = end !== null && end <= new Date().toISOString()
      return (
        <div>
          {hasEnded ? <None>{value}</None> : value}
          {end !== null && (
            <>
              {' '}
              {hasEnded ? 'ended' : 'until'} <Time at={end} to="day" />
            </>
          )}
          {note !== null && <p className={styles.note}>{note}</p>}
        </div>
      )
    },
  },
]

function actionsOf(licence: LicenceDetail): Column<EntitlementRow> {
  return {
    name: 'Actions',
    quiet: true,
    align: 'end',
    cell: ({ key, override }) => (
      <>
        <OverrideButton entitlement={key} isThere={override !== undefined} />
        {override && (
          <ConfirmButton
            action="Remove override"
            short="Remove"
            look="quiet"
            run={() =>
              api.delete('/v1/licences/{licence_id}/overrides/{key}', {
                path: { licence_id: licence.id, key },
              })
            }
          >
            <p>
              Products get the value of the snapshot for <code>{key}</code> with their next token.
            </p>
          </ConfirmButton>
        )}
      </>
    ),
  }
}

function OverrideButton({ entitlement, isThere }: { entitlement: string; isThere: boolean }) {
  const [, setAddress] = useAddress()
  return (
    <Button kind="quiet" onClick={() => setAddress({ open: 'override', entitlement })}>
      {isThere ? 'Change' : 'Override'}
      <span className="visually-hidden"> {entitlement}</span>
    </Button>
  )
}

function Value({ of, isDrifted }: { of: string | null; isDrifted: boolean }) {
  if (of === null) return <None>none</None>
  return isDrifted ? <strong className={styles.drifted}>{of}</strong> : of
}

function TakePlanValues({ licence }: { licence: LicenceDetail }) {
  return (
    <ConfirmButton
      hidden={licence.plan_drift.length === 0}
      action="Take the plan’s values"
      kind="primary"
      run={() => api.post('/v1/licences/{licence_id}/take-plan-values', { path: { licence_id: licence.id } })}
    >
      <ReadNow query={licenceQuery(licence.id)}>
        {({ plan_drift: drift }) => (
          <>
            <p>The licence gets the values that its plan has now. Its overrides stay.</p>
            <ul className={styles.drift}>
              {drift.map(({ key, licence_value: from, plan_value: to }) => (
                <li key={key}>
                  <code>{key}</code>: {from ?? 'none'} → {to ?? 'none'}
                </li>
              ))}
            </ul>
          </>
        )}
      </ReadNow>
    </ConfirmButton>
  )
}
