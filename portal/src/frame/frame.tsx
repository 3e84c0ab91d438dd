import { useMutation } from '@tanstack/react-query'
import { Link, Outlet, useRouterState } from '@tanstack/react-router'
import { useEffect, useId, useRef, useState } from 'react'
import { useApplication } from '../api/applications.ts'
import { signOut, useSession } from '../api/session.ts'
import { useAddress } from '../address.ts'
import { Button } from '../parts/button.tsx'
import { Problem, ReadProblem } from '../parts/problem.tsx'
import styles from './frame.module.css'
import { ProgressBar } from '../parts/progress.tsx'
import { useWork } from '../parts/work.ts'

const links = [
  ['/', 'Overview'],
  ['/licences', 'Licences'],
  ['/plans', 'Plans'],
  ['/webhooks', 'Webhooks'],
  ['/payments', 'Payments'],
  ['/import', 'Import'],
  ['/settings', 'Settings'],
] as const

/** The frame around every page. */
export function Frame() {
  const { own } = useSession()
  const { appId, reading } = useApplication()
  const [{ app }, setAddress] = useAddress()
  const leaving = useMutation({ mutationFn: signOut })
  const main = useFocusOnNewPage()
  const changes = useChanges(appId)

  // The address always names the application, so that a copied address opens the same one with any key.
  useEffect(() => {
    if (app === undefined && appId !== '') setAddress({ app: appId }, { replace: true })
  })

  return (
    <div className={styles.frame}>
      <a className={styles.skip} href="#main">
        Skip to the page
      </a>
      <header className={styles.side}>
        <div className={styles.inner}>
          <p className={styles.brand}>Licensing</p>
          <ApplicationSelect />
          <nav aria-label="Main" className={styles.nav}>
            {links.map(([to, name]) => (
              <Link key={to} to={to} activeOptions={{ exact: to === '/', includeSearch: false }}>
                {name}
              </Link>
            ))}
          </nav>
          <RunningWork />
          <div className={styles.session}>
            <p>
              <span className="visually-hidden">
                {own.role === undefined ? 'Signed in with the key ' : 'Signed in as '}
              </span>
              <span className={styles.keyName}>{own.name}</span>
              <span className={styles.scopes}>{own.role ?? own.scopes.join(' · ')}</span>
            </p>
            <Button busy={leaving.isPending} onClick={() => leaving.mutate()}>
              Sign out
            </Button>
          </div>
        </div>
      </header>
      <main id="main" ref={main} className={styles.main}>
        {leaving.isError && <Problem error={leaving.error} retry={() => leaving.mutate()} />}
        {/* If the applications cannot be read, pages have no application to show and would load forever. */}
        {appId === '' && <ReadProblem of={reading} />}
        <Outlet key={changes} />
        <p className={styles.foot}>All times are UTC.</p>
      </main>
    </div>
  )
}

/**
 * Counts the changes from one application to another, as the key of the page: after a change nothing of the previous
 * application is left on it. When the first application becomes known, the count and the typed input stay.
 */
function useChanges(appId: string): number {
  const [{ known, changes }, setKnown] = useState({ known: appId, changes: 0 })
  if (known !== appId) setKnown({ known: appId, changes: known === '' ? changes : changes + 1 })
  return changes
}

function ApplicationSelect() {
  const { appId, applications } = useApplication()
  const [, setAddress] = useAddress()
  const id = useId()
  const isListed = applications.some(({ id }) => id === appId)
  return (
    <div className={styles.application}>
      <label htmlFor={id}>Application</label>
      <select
        id={id}
        value={appId}
        onChange={(event) => setAddress({ ...cleared(location.search), app: event.target.value })}
      >
        {!isListed && <option value={appId}>{appId}</option>}
        {applications.map(({ id, name }) => (
          <option key={id} value={id}>
            {name}
          </option>
        ))}
      </select>
    </div>
  )
}

/** Clears filters and pages of lists, because they belong to one application. */
function cleared(search: string): Record<string, undefined> {
  return Object.fromEntries([...new URLSearchParams(search).keys()].map((name) => [name, undefined]))
}

/** After a link was followed, the heading of the page gets the focus, for keyboards and screen readers. */
function useFocusOnNewPage() {
  const main = useRef<HTMLElement>(null)
  const path = useRouterState({ select: ({ resolvedLocation }) => resolvedLocation?.pathname })
  const last = useRef(path)
  useEffect(() => {
    const isOther = last.current !== undefined && last.current !== path
    // A dialog that opens together with its page keeps the focus.
    if (isOther && !document.querySelector('[role=dialog]')) main.current?.querySelector('h1')?.focus()
    last.current = path
  }, [path])
  return main
}

/** Long work that continues while the user is on other pages, with a link to its page. */
function RunningWork() {
  const running = [...useWork().values()].filter(({ state }) => state === 'running')
  if (running.length === 0) return null
  return (
    <ul role="list" aria-label="Running work" className={styles.work}>
      {running.map(({ id, title, address, done, total }) => (
        <li key={id}>
          <Link to={address}>{title}</Link>
          <ProgressBar name={`${title}, in short`} done={done} total={total} />
        </li>
      ))}
    </ul>
  )
}
