import type { LicenceDetail } from '../../api/licences.ts'
import { Section } from '../../parts/page.tsx'
import { Table } from '../../parts/table.tsx'
import { None } from '../../parts/text.tsx'
import styles from './licence.module.css'

interface Row {
  key: string
  kind: string
  licence: string | null
  /** The value that the plan has now; undefined if it is the same. */
  plan: string | null | undefined
}

/** The snapshot that the licence was issued with, and where its plan has moved on since. */
export function Entitlements({ licence }: { licence: LicenceDetail }) {
  const rows = rowsOf(licence)
  const drifted = licence.plan_drift.length
  return (
    <Section title="Entitlements">
      {drifted > 0 && (
        <p>
          {drifted === 1 ? 'One entitlement differs' : `${drifted} entitlements differ`} from the plan’s
          current values. A licence keeps the values with which it was issued.
        </p>
      )}
      <Table
        label="Entitlements"
        columns={[
          { name: 'Key', cell: ({ key }) => <code>{key}</code> },
          { name: 'Kind', cell: ({ kind }) => kind },
          { name: 'Licence', cell: (row) => <Value of={row.licence} isDrifted={row.plan !== undefined} /> },
          {
            name: 'Plan',
            cell: ({ plan, licence }) =>
              plan === undefined ? <None>{licence ?? '–'}</None> : <Value of={plan} isDrifted />,
          },
        ]}
        rows={rows}
        idOf={({ key }) => key}
        empty="When it was issued, the application had no entitlement definitions."
      />
    </Section>
  )
}

function Value({ of, isDrifted }: { of: string | null; isDrifted: boolean }) {
  if (of === null) return <None>none</None>
  return isDrifted ? <strong className={styles.drifted}>{of}</strong> : of
}

function rowsOf({ entitlements, plan_drift: drift }: LicenceDetail): Row[] {
  const drifted = new Map(drift.map((entry) => [entry.key, entry]))
  const held = entitlements.map(({ key, kind, value }): Row => ({
    key,
    kind,
    licence: value,
    plan: drifted.get(key)?.plan_value,
  }))
  const added = drift.filter(({ key }) => !entitlements.some((entry) => entry.key === key))
  return [
    ...held,
    ...added.map(({ key, kind, plan_value: plan }): Row => ({ key, kind, licence: null, plan })),
  ].toSorted((a, b) => (a.key < b.key ? -1 : 1))
}
