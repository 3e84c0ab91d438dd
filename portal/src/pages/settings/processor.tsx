import { useQuery, useMutation } from '@tanstack/react-query'
import { useEffect } from 'react'
import { LicensingApiError } from '@licensing/sdk/backend'
import { processorQuery } from '../../api/settings.ts'
import { useAddress } from '../../address.ts'
import { Box, Section } from '../../parts/page.tsx'
import { Facts } from '../../parts/facts.tsx'
import { ReadProblem, Problem } from '../../parts/problem.tsx'
import { Time } from '../../parts/text.tsx'
import styles from './settings.module.css'
import { api } from '../../api/client.ts'
import { Button } from '../../parts/button.tsx'
import { TextField } from '../../parts/fields.tsx'
import { Form } from '../../parts/form.tsx'

// The page that the processor returns to links to this section: gateway/src/pages/authorized.ts.
const sectionId = 'processor'

export function ProcessorSection() {
  const reading = useQuery(processorQuery)
  const { data: processor } = reading
  const [{ connected }] = useAddress()
  const isKnown = processor !== undefined
  useEffect(() => {
    if (isKnown && location.hash === `#${sectionId}`) {
      document.querySelector<HTMLElement>(`#${sectionId} h2`)?.focus()
    }
  }, [isKnown])
  return (
    <Section id={sectionId} title="Processor">
      <ReadProblem of={reading} />
      {processor && processor.connected_account === connected && (
        <p role="status" className={styles.done}>
          <strong>{connected}</strong> is connected: payments for your plans go there from now on.
        </p>
      )}
      {processor && (
        <Facts
          narrow
          of={{
            Processor: 'Stripe',
            'Connected account': <code>{processor.connected_account}</code>,
            Since: <Time at={processor.connected_at} />,
            Money: processor.livemode ? 'real payments' : 'test payments',
          }}
        />
      )}
      {isKnown && (
        <Box>
          <p>
            {processor
              ? 'Another account replaces this one for new checkouts. Past sales are not affected.'
              : 'Customers pay into your own Stripe account. When it is connected, you can sell plans that have a price.'}
          </p>
          <ContinueToStripe isConnected={processor !== null} />
          <ConnectById isConnected={processor !== null} />
        </Box>
      )}
    </Section>
  )
}

interface ConnectProps {
  isConnected: boolean
}

/** Stripe's consent page proves that the account belongs to the vendor. It returns to a page with a link to this section. */
function ContinueToStripe({ isConnected }: ConnectProps) {
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

/** Connects an account by its id, if the account was proven before or the installation requires no proof. */
function ConnectById({ isConnected }: ConnectProps) {
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
