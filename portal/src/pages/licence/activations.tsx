import { api } from '../../api/client.ts'
import { activationList, type LicenceDetail } from '../../api/licences.ts'
import { useSession } from '../../api/session.ts'
import { ConfirmButton } from '../../parts/dialog.tsx'
import { Section } from '../../parts/page.tsx'
import { usePages } from '../../parts/pages.ts'
import { CustomerLink } from './customer-link.tsx'
import { PagedTable, type Column, Table } from '../../parts/table.tsx'
import { count, None, Time } from '../../parts/text.tsx'

type Activation = LicenceDetail['activations'][number]

export function Activations({ licence }: { licence: LicenceDetail }) {
  const { can } = useSession()
  const page = usePages('activations', activationList(licence.id))
  const max = licence.restrictions?.max_activations
  const used = count(licence.activations_total)
  const slots = licence.restrictions?.max_concurrent
  return (
    <Section
      title="Activations"
      actions={
        <>
          {slots !== undefined && (
            <strong>
              {count(licence.leases_in_use)} of {count(slots)} slots in use
            </strong>
          )}
          <None>{max === undefined ? `${used} in use` : `${used} of ${count(max)} in use`}</None>
          <CustomerLink licence={licence} />
        </>
      }
    >
      <PagedTable
        label="Activations"
        columns={[
          ...columns,
          ...(slots === undefined ? [] : [leaseColumn]),
          ...(can('revoke') ? [freeColumn(licence)] : []),
        ]}
        page={page}
        idOf={({ id }) => id}
        empty="No product is activated with this licence."
      />
    </Section>
  )
}

const columns: readonly Column<Activation>[] = [
  { name: 'Host', wrap: true, cell: ({ host }) => host },
  { name: 'Fingerprint', wrap: true, cell: ({ fingerprint }) => <code>{fingerprint}</code> },
  { name: 'Version', wrap: true, cell: ({ product_version: version }) => version },
  { name: 'Activated', cell: ({ created_at: at }) => <Time at={at} /> },
  { name: 'Last seen', cell: ({ last_seen_at: at }) => <Time at={at} /> },
]

const leaseColumn: Column<Activation> = {
  name: 'Slot',
  cell: ({ lease_ends_at: end }) => {
    if (end === null) return <None>none</None>
    const isHeld = end > new Date().toISOString()
    return (
      <span>
        {isHeld ? 'until' : 'ended'} <Time at={end} />
      </span>
    )
  },
}

function freeColumn(licence: LicenceDetail): Column<Activation> {
  return {
    name: 'Actions',
    quiet: true,
    align: 'end',
    cell: ({ id, host, fingerprint }) => (
      <ConfirmButton
        action="Free"
        look="quiet"
        run={() =>
          api.delete('/v1/licences/{licence_id}/activations/{activation_id}', {
            path: { licence_id: licence.id, activation_id: id },
          })
        }
      >
        <p>
          Frees the activation of <strong>{host}</strong> (<code>{fingerprint}</code>) for another machine.
          The product there loses access at its next token refresh. This cannot be undone; it can be activated
          again.
        </p>
      </ConfirmButton>
    ),
  }
}

/** The latest ten calls of installed products. */
export function RecentCalls({ licence }: { licence: LicenceDetail }) {
  const rows = licence.call_home.slice(0, 10).map((call, nth) => ({ ...call, nth }))
  return (
    <Section title="Recent calls">
      <Table
        label="Recent calls"
        columns={[
          { name: 'Host', wrap: true, cell: ({ host }) => host },
          { name: 'Version', wrap: true, cell: ({ product_version: version }) => version },
          { name: 'Seen', cell: ({ seen_at: at }) => <Time at={at} to="second" /> },
        ]}
        rows={rows}
        idOf={({ nth }) => String(nth)}
        empty="No product has called home yet."
      />
    </Section>
  )
}
