import { useQuery } from '@tanstack/react-query'
import { Link } from '@tanstack/react-router'
import { useApplication } from '../../api/applications.ts'
import { api } from '../../api/client.ts'
import { definitionsQuery, plansQuery, type EntitlementDefinition } from '../../api/plans.ts'
import { useSession } from '../../api/session.ts'
import { useAddress } from '../../address.ts'
import { Button } from '../../parts/button.tsx'
import { ConfirmButton, Dialog } from '../../parts/dialog.tsx'
import { Page, Section } from '../../parts/page.tsx'
import { ReadTable, type Column } from '../../parts/table.tsx'
import { None, Status } from '../../parts/text.tsx'
import { NewEntitlement } from './new-entitlement.tsx'
import { TextField } from '../../parts/fields.tsx'
import { ActiveLicences } from '../plan/active-licences.tsx'
import { Form } from '../../parts/form.tsx'

export function Route() {
  const { can } = useSession()
  const [, setAddress] = useAddress()
  return (
    <Page
      title="Plans"
      needs={['admin', 'read']}
      aside={
        can('admin') && (
          <Button kind="primary" onClick={() => setAddress({ open: 'new-plan' })}>
            New plan
          </Button>
        )
      }
    >
      {can('admin') && <NewPlan />}
      <Plans />
      <Definitions />
    </Page>
  )
}

function Plans() {
  const { appId } = useApplication()
  const plans = useQuery(plansQuery(appId))
  return (
    <ReadTable
      label="Plans"
      of={plans}
      columns={[
        {
          name: 'Name',
          cell: ({ id, name }) => (
            <Link to="/plans/$planId" params={{ planId: id }}>
              {name}
            </Link>
          ),
        },
        { name: 'Code', cell: ({ code }) => <code>{code}</code> },
        { name: 'Status', cell: ({ status }) => <Status of={status} /> },
        {
          name: 'Overrides',
          align: 'end',
          cell: ({ entitlements }) => (entitlements.length === 0 ? <None>none</None> : entitlements.length),
        },
        { name: 'Active licences', align: 'end', cell: (plan) => <ActiveLicences of={plan} /> },
      ]}
      rows={plans.data}
      idOf={({ id }) => id}
      empty="There are no plans yet. A plan is what you sell: name it, then give each entitlement its value."
    />
  )
}

function Definitions() {
  const { appId } = useApplication()
  const { can } = useSession()
  const [, setAddress] = useAddress()
  const definitions = useQuery(definitionsQuery(appId))
  return (
    <Section
      title="Entitlements"
      actions={
        can('admin') && (
          <>
            <Button onClick={() => setAddress({ open: 'new-entitlement' })}>New entitlement</Button>
            <NewEntitlement />
          </>
        )
      }
    >
      <ReadTable
        label="Entitlements"
        of={definitions}
        columns={[...columns, ...(can('admin') ? [deleteColumn(appId)] : [])]}
        rows={definitions.data}
        idOf={({ id }) => id}
        empty="There are no entitlements yet. Define what your product checks: a feature, or a limit like a number of projects."
      />
    </Section>
  )
}

const columns: readonly Column<EntitlementDefinition>[] = [
  { name: 'Display name', cell: ({ display_name: name }) => name },
  { name: 'Key', cell: ({ key }) => <code>{key}</code> },
  { name: 'Kind', cell: ({ kind }) => kind },
  { name: 'Default', cell: (definition) => definition.default },
]

function deleteColumn(appId: string): Column<EntitlementDefinition> {
  return {
    name: 'Actions',
    quiet: true,
    align: 'end',
    cell: ({ id, key }) => (
      <ConfirmButton
        action="Delete"
        look="quiet"
        run={() =>
          api.delete('/v1/apps/{app_id}/entitlement-defs/{ent_id}', {
            path: { app_id: appId, ent_id: id },
          })
        }
      >
        <p>
          <code>{key}</code> and its values in all plans are deleted. Existing licences keep their values.
          This cannot be undone. You can define the key again with the same kind.
        </p>
      </ConfirmButton>
    ),
  }
}

export function NewPlan() {
  const { appId } = useApplication()
  const [{ open }, setAddress] = useAddress()
  const close = () => setAddress({ open: undefined }, { replace: true })
  return (
    <Dialog title="New plan" open={open === 'new-plan'} onClose={close}>
      <Form
        submit="Create"
        run={async (values, idempotencyKey) => {
          await api.post('/v1/apps/{app_id}/plans', {
            path: { app_id: appId },
            body: { name: values.text('name'), code: values.text('code') },
            idempotencyKey,
          })
          close()
        }}
      >
        <TextField label="Name" name="name" required hint="The name that customers see, such as Pro." />
        <TextField
          label="Code"
          name="code"
          required
          maxLength={64}
          hint="Used in files and imports. Letters, digits, dots, hyphens and underscores."
        />
      </Form>
    </Dialog>
  )
}
