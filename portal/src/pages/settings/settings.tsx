import { useQuery } from '@tanstack/react-query'
import { useState } from 'react'
import { useSession } from '../../api/session.ts'
import { Box, Page, Section } from '../../parts/page.tsx'
import { ApiKeys } from './api-keys.tsx'
import { AuditLog } from './audit-log.tsx'
import { Applications } from './applications.tsx'
import { CustomerPageSection } from './customer-page.tsx'
import { Members } from './members.tsx'
import { ProcessorSection } from './processor.tsx'
import { api } from '../../api/client.ts'
import { accountQuery } from '../../api/settings.ts'
import { TextField } from '../../parts/fields.tsx'
import { Form } from '../../parts/form.tsx'
import { ReadProblem } from '../../parts/problem.tsx'
import styles from './settings.module.css'

export function Route() {
  const { own } = useSession()
  const isOfAccount = own.app_id === null
  return (
    <Page title="Settings" needs={['admin']}>
      {isOfAccount && (
        <>
          <ApiKeys />
          <Members />
        </>
      )}
      <Applications />
      <CustomerPageSection />
      {isOfAccount ? (
        <>
          <AlertEmail />
          <ProcessorSection />
        </>
      ) : (
        <Box>
          <p>
            You have access to one application. API keys, members, the alert e-mail and the processor belong
            to the account: sign in with a key for all applications, or as a member of all applications.
          </p>
        </Box>
      )}
      <AuditLog />
    </Page>
  )
}

export function AlertEmail() {
  const reading = useQuery(accountQuery)
  const { data: account } = reading
  const [said, setSaid] = useState('')
  return (
    <Section title="Alert e-mail">
      <Box>
        <p>
          Alerts are sent to this address, for example when a webhook endpoint fails or is disabled. The
          overview lists them too.
        </p>
        <ReadProblem of={reading} />
        {account && (
          <Form
            submit="Save"
            actions={<span className={styles.said}>{said}</span>}
            run={async (values) => {
              setSaid('')
              const address = values.text('alert_email')
              await api.patch('/v1/account', { body: { alert_email: address === '' ? null : address } })
              setSaid('Saved')
            }}
          >
            <TextField
              label="Alert e-mail"
              name="alert_email"
              type="email"
              maxLength={254}
              defaultValue={account.alert_email ?? ''}
              hint="Empty: alerts are not mailed."
            />
            {account.alert_email !== null && !account.alert_email_confirmed && (
              <p className={styles.note}>
                {account.alert_email} is not confirmed yet. It gets a mail with a link. Until somebody follows
                the link, alerts go to the address before it, if there is one.
              </p>
            )}
          </Form>
        )}
      </Box>
    </Section>
  )
}
