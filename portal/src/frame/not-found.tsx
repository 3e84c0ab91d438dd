import { Link } from '@tanstack/react-router'
import { Page } from '../parts/page.tsx'

const anyScope = ['read', 'admin', 'issue', 'revoke'] as const

export function NotFound() {
  return (
    <Page title="Not found" needs={anyScope}>
      <p>
        There is no such page. The address may be incomplete: go to the <Link to="/">overview</Link>.
      </p>
    </Page>
  )
}
