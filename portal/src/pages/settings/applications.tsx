import type { Schemas } from '@licensing/sdk/backend'
import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { applicationsQuery } from '../../api/applications.ts'
import { api } from '../../api/client.ts'
import { useSession } from '../../api/session.ts'
import { useAddress } from '../../address.ts'
import { Button } from '../../parts/button.tsx'
import { Dialog } from '../../parts/dialog.tsx'
import { TextField } from '../../parts/fields.tsx'
import { Form } from '../../parts/form.tsx'
import { Section } from '../../parts/page.tsx'
import { ReadTable } from '../../parts/table.tsx'
import { None, Time } from '../../parts/text.tsx'
import styles from './settings.module.css'

export function Applications() {
  const { own } = useSession()
  const [{ open, edited }, setAddress] = useAddress()
  const applications = useQuery(applicationsQuery)
  const close = () => setAddress({ open: undefined, edited: undefined }, { replace: true })
  const application = applications.data?.find(({ id }) => id === edited)
  return (
    <Section
      title="Applications"
      actions={
        own.app_id === null && (
          <>
            <Button onClick={() => setAddress({ open: 'new-application' })}>New application</Button>
            <Dialog title="New application" open={open === 'new-application'} onClose={close}>
              <NewApplicationForm onDone={close} />
            </Dialog>
          </>
        )
      }
    >
      <ReadTable
        label="Applications"
        of={applications}
        columns={[
          { name: 'Name', cell: ({ name }) => name },
          { name: 'Id', cell: ({ id }) => <code className={styles.whole}>{id}</code> },
          { name: 'Root key', wrap: true, cell: ({ root_key: key }) => <code>{key}</code> },
          {
            name: 'Expiry notice',
            cell: ({ expiring_notice_days: days }) =>
              days === 0 ? <None>off</None> : days === 1 ? '1 day' : `${days} days`,
          },
          { name: 'Created', cell: ({ created_at: at }) => <Time at={at} to="day" /> },
          {
            name: 'Actions',
            quiet: true,
            align: 'end',
            cell: ({ id, name }) => (
              <Button kind="quiet" onClick={() => setAddress({ open: 'application', edited: id })}>
                Edit<span className="visually-hidden"> {name}</span>
              </Button>
            ),
          },
        ]}
        rows={applications.data}
        idOf={({ id }) => id}
        empty="There are no applications yet. An application is a product that you sell: its plans, licences and webhooks are its own."
      />
      <Dialog
        title="Edit application"
        open={open === 'application' && application !== undefined}
        onClose={close}
      >
        {application && <EditForm application={application} onDone={close} />}
      </Dialog>
    </Section>
  )
}

interface EditFormProps {
  application: Schemas['Application']
  onDone: () => void
}

function EditForm({ application, onDone }: EditFormProps) {
  const [before] = useState(application)
  return (
    <Form
      submit="Save"
      run={async (values) => {
        const [name, days] = [values.text('name'), values.number('expiring_notice_days')]
        await api.patch('/v1/apps/{app_id}', {
          path: { app_id: before.id },
          body: {
            ...(name !== before.name && { name }),
            ...(days !== before.expiring_notice_days && { expiring_notice_days: days }),
          },
        })
        onDone()
      }}
    >
      <TextField label="Name" name="name" required defaultValue={before.name} />
      <TextField
        label="Notice before expiry, in days"
        name="expiring_notice_days"
        inputMode="numeric"
        required
        defaultValue={before.expiring_notice_days}
        hint="The event licence.expiring is sent when a licence has fewer days left, 0 to 90. 0: never."
      />
    </Form>
  )
}

function NewApplicationForm({ onDone }: { onDone: () => void }) {
  return (
    <Form
      submit="Create"
      run={async (values, idempotencyKey) => {
        await api.post('/v1/apps', { body: { name: values.text('name') }, idempotencyKey })
        onDone()
      }}
    >
      <TextField
        label="Name"
        name="name"
        required

        hint="The name of the product."
      />
    </Form>
  )
}
