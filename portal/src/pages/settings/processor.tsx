import { useQuery } from '@tanstack/react-query'
import { useEffect } from 'react'
import { processorQuery } from '../../api/settings.ts'
import { useAddress } from '../../parts/address.ts'
import { Box } from '../../parts/box.tsx'
import { Facts } from '../../parts/facts.tsx'
import { Section } from '../../parts/page.tsx'
import { ReadProblem } from '../../parts/reading.tsx'
import { Time } from '../../parts/text.tsx'
import { ConnectById, ContinueToStripe } from './connect-processor.tsx'
import styles from './settings.module.css'

// The page to which the processor returns leads to it: gateway/src/pages/authorized.ts.
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
