import {
  createRootRoute,
  createRoute,
  createRouter,
  lazyRouteComponent,
  retainSearchParams,
  Link,
} from '@tanstack/react-router'
import { Frame } from './frame/frame.tsx'
import { SessionGate } from './frame/session-gate.tsx'
import { Problem } from './parts/problem.tsx'
import { readAddress, writeAddress, type Address } from './address.ts'
import { Page } from './parts/page.tsx'

const root = createRootRoute({
  validateSearch: (search: Record<string, unknown>): Address => search as Address,
  // Every link keeps the application of the address.
  search: { middlewares: [retainSearchParams(['app'])] },
  component: () => (
    <SessionGate>
      <Frame />
    </SessionGate>
  ),
  notFoundComponent: NotFound,
})

const page = <Path extends string>(path: Path, load: Parameters<typeof lazyRouteComponent>[0]) =>
  createRoute({ getParentRoute: () => root, path, component: lazyRouteComponent(load, 'Route') })

const routeTree = root.addChildren([
  page('/', () => import('./pages/overview/overview.tsx')),
  page('/licences', () => import('./pages/licences/licences.tsx')),
  page('/licences/$licenceId', () => import('./pages/licence/licence.tsx')),
  page('/plans', () => import('./pages/plans/plans.tsx')),
  page('/plans/$planId', () => import('./pages/plan/plan.tsx')),
  page('/webhooks', () => import('./pages/webhooks/webhooks.tsx')),
  page('/webhooks/endpoints/$endpointId', () => import('./pages/endpoint/endpoint.tsx')),
  page('/webhooks/deliveries/$deliveryId', () => import('./pages/delivery/delivery.tsx')),
  page('/payments', () => import('./pages/payments/payments.tsx')),
  page('/import', () => import('./pages/import/import.tsx')),
  page('/settings', () => import('./pages/settings/settings.tsx')),
])

/** Call it after `takeKeyFromAddress`, because the router reads the address. */
export const makeRouter = () =>
  createRouter({
    routeTree,
    basepath: '/portal',
    parseSearch: readAddress,
    stringifySearch: writeAddress,
    defaultPreload: 'intent',
    scrollRestoration: true,
    // The usual cause is a script of a replaced version that the server no longer has.
    defaultErrorComponent: ({ error }) => <Problem error={error} retry={() => location.reload()} />,
  })

declare module '@tanstack/react-router' {
  interface Register {
    router: ReturnType<typeof makeRouter>
  }
}

const anyScope = ['read', 'admin', 'issue', 'revoke'] as const

function NotFound() {
  return (
    <Page title="Not found" needs={anyScope}>
      <p>
        There is no such page. The address may be incomplete: go to the <Link to="/">overview</Link>.
      </p>
    </Page>
  )
}
