import type { Schemas } from '@licensing/sdk/backend'
import { useState } from 'react'
import { useApplication } from '../../api/applications.ts'
import { api } from '../../api/client.ts'
import { Copy } from '../../parts/copy.tsx'
import { CheckboxField, TextField } from '../../parts/fields.tsx'
import { Form } from '../../parts/form.tsx'
import { Box, Section } from '../../parts/page.tsx'
import { ReadProblem } from '../../parts/problem.tsx'
import styles from './settings.module.css'

/** The settings of the page on which customers of the selected application see their licence. */
export function CustomerPageSection() {
  const { appId, applications, reading } = useApplication()
  const application = applications.find(({ id }) => id === appId)
  if (!application && !reading.error) return null
  return (
    <Section title="Customer page">
      <Box>
        <ReadProblem of={reading} />
        {application && (
          <>
            <p>
              Customers of <strong>{application.name}</strong> see their licence there and remove machines.
              Create a link on the page of a licence, or let them sign in with the licence key.
            </p>
            <CustomerPageForm key={application.id} application={application} />
          </>
        )}
      </Box>
    </Section>
  )
}

function CustomerPageForm({
  application: { id, customer_page: page },
}: {
  application: Schemas['Application']
}) {
  const [before, setBefore] = useState(page)
  const [said, setSaid] = useState('')
  return (
    <>
      <Form
        submit="Save"
        actions={<span className={styles.said}>{said}</span>}
        run={async (values) => {
          setSaid('')
          const text = (name: string) => (values.text(name) === '' ? null : values.text(name))
          const entered = {
            support_url: text('customer_page/support_url'),
            accent_color: text('customer_page/accent_color'),
            frees_per_day: values.number('customer_page/frees_per_day'),
            offline_days: values.number('customer_page/offline_days'),
            key_sign_in: values.all('customer_page/key_sign_in').length > 0,
          } satisfies Record<keyof typeof before, unknown>
          const changed = Object.entries(entered).filter(
            ([name, value]) => value !== before[name as keyof typeof before],
          )
          if (changed.length > 0) {
            const saved = await api.patch('/v1/apps/{app_id}', {
              path: { app_id: id },
              body: { customer_page: Object.fromEntries(changed) },
            })
            setBefore(saved.customer_page)
          }
          setSaid('Saved')
        }}
      >
        <TextField
          label="Support address"
          name="customer_page/support_url"
          defaultValue={before.support_url ?? ''}
          placeholder="mailto:help@example.com"
          hint="Where customers get help: https: or mailto:. Empty: no link."
        />
        <TextField
          label="Accent colour"
          name="customer_page/accent_color"
          defaultValue={before.accent_color ?? ''}
          placeholder="#0b6e4f"
          hint="The colour of buttons and links: # and six hexadecimal digits. Texts can be read on any colour."
        />
        <TextField
          label="Removals per day"
          name="customer_page/frees_per_day"
          inputMode="numeric"
          required
          defaultValue={before.frees_per_day}
          hint="How many machines a customer can remove from a licence on a day (UTC), 0 to 100."
        />
        <TextField
          label="Offline days"
          name="customer_page/offline_days"
          inputMode="numeric"
          required
          defaultValue={before.offline_days}
          hint="How long the licence file works that a customer makes for a machine without a network, 0 to 366. 0: customers make none."
        />
        <CheckboxField
          label="Sign-in with the licence key"
          name="customer_page/key_sign_in"
          defaultChecked={before.key_sign_in}
        />
      </Form>
      {page.key_sign_in && <Copy name="Copy address" text={`${location.origin}/customer/${id}`} />}
    </>
  )
}
