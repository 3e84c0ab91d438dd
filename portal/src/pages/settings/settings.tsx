import { useSession } from '../../api/session.ts'
import { Box } from '../../parts/box.tsx'
import { Page } from '../../parts/page.tsx'
import { AlertEmail } from './alert-email.tsx'
import { ApiKeys } from './api-keys.tsx'
import { Applications } from './applications.tsx'
import { ProcessorSection } from './processor.tsx'

export function Route() {
  const { own } = useSession()
  const isOfAccount = own.app_id === null
  return (
    <Page title="Settings" needs={['admin']}>
      {isOfAccount && <ApiKeys />}
      <Applications />
      {isOfAccount ? (
        <>
          <AlertEmail />
          <ProcessorSection />
        </>
      ) : (
        <Box>
          <p>
            This key is bound to one application. API keys, the alert e-mail and the processor belong to the
            account: sign in with a key for all applications.
          </p>
        </Box>
      )}
    </Page>
  )
}
