import { LicensingApiError } from '@licensing/sdk/backend'
import { useMutation } from '@tanstack/react-query'
import { api } from '../../api/client.ts'
import { Button } from '../../parts/button.tsx'
import { TextField } from '../../parts/fields.tsx'
import { Form } from '../../parts/form.tsx'
import { Problem } from '../../parts/problem.tsx'
import styles from './settings.module.css'

interface ConnectProps {
  isConnected: boolean
}

/** Stripe's consent page proves that the account is the vendor's. It returns to a page that leads back here. */
export function ContinueToStripe({ isConnected }: ConnectProps) {
  const beginning = useMutation({
    mutationFn: async () => {
      const { url } = await api.post('/v1/processor/authorizations')
      location.assign(url)
    },
  })
  return (
    <>
      {beginning.isError && <Problem error={beginning.error} retry={() => beginning.mutate()} />}
      <div className={styles.way}>
        <Button
          kind={isConnected ? 'plain' : 'primary'}
          busy={beginning.isPending}
          onClick={() => beginning.mutate()}
        >
          Continue to Stripe
        </Button>
        <span className={styles.note}>
          Choose the account and grant access on Stripe’s page. Then confirm the connection; you return to
          this page.
        </span>
      </div>
    </>
  )
}

/** For an account that was proven before, and for installations that ask for no proof. */
export function ConnectById({ isConnected }: ConnectProps) {
  return (
    <div className={styles.byId}>
      <h3>Connect by account id</h3>
      <Form
        submit={isConnected ? 'Connect another' : 'Connect'}
        kind={isConnected ? 'danger' : 'primary'}
        run={(values) => connect(values.text('connected_account'))}
      >
        <TextField
          label="Stripe account"
          name="connected_account"
          required
          placeholder="acct_…"
          hint="For an account that was connected here before. Its id is in the account settings of the Stripe dashboard."
        />
      </Form>
    </div>
  )
}

async function connect(account: string): Promise<void> {
  try {
    await api.put('/v1/processor', { body: { processor: 'stripe', connected_account: account } })
  } catch (error) {
    if (!(error instanceof LicensingApiError) || error.problem['current'] !== 'not_proven') throw error
    const detail = `It is not proven that ${account} belongs to you. Use “Continue to Stripe”: it also connects the account.`
    throw new LicensingApiError(error.code, error.status, { ...error.problem, detail }, error)
  }
}
