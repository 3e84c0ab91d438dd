import { useQuery } from '@tanstack/react-query'
import { applicationsQuery } from '../../api/applications.ts'
import { api } from '../../api/client.ts'
import { useSession } from '../../api/session.ts'
import { useAddress } from '../../parts/address.ts'
import { Button } from '../../parts/button.tsx'
import { Dialog } from '../../parts/dialog.tsx'
import { TextField } from '../../parts/fields.tsx'
import { Form } from '../../parts/form.tsx'
import { Section } from '../../parts/page.tsx'
import { ReadTable } from '../../parts/table.tsx'
import { Time } from '../../parts/text.tsx'
import styles from './settings.module.css'

export function Applications() {
  const { own } = useSession()
  const [{ open }, setAddress] = useAddress()
  const applications = useQuery(applicationsQuery)
  const close = () => setAddress({ open: undefined }, { replace: true })
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
          { name: 'Root key', cell: ({ root_key: key }) => <code className={styles.whole}>{key}</code> },
          { name: 'Created', cell: ({ created_at: at }) => <Time at={at} to="day" /> },
        ]}
        rows={applications.data}
        idOf={({ id }) => id}
        empty="There are no applications yet. An application is a product that you sell: its plans, licences and webhooks are its own."
      />
    </Section>
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
