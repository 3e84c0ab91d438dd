import { useCallback, useEffect, useRef, useState, type ReactNode } from 'react'
import { accentOf } from './accent.ts'
import { call, Refusal, type App, type Licence } from './api.ts'
import { LicenceRegion } from './licence.tsx'
import { Machines } from './machines.tsx'
import { Offline } from './offline.tsx'
import { Alert, problemText } from './parts.tsx'
import { appInPath, currentSession, endSession, keepSession, type Session } from './session.ts'
import { SignIn } from './sign-in.tsx'
import type { Texts } from './texts/en.ts'

type View =
  | { kind: 'loading' }
  | { kind: 'licence'; licence: Licence }
  | { kind: 'sign-in' }
  | { kind: 'off' }
  | { kind: 'problem'; problem: Refusal }

/** The page of a customer: the licence of the session, or the field for the licence key. */
export function Page({ texts }: { texts: Texts }) {
  const [session, setSession] = useState(currentSession)
  const [view, setView] = useState<View>({ kind: 'loading' })
  const [app, setApp] = useState<App | null>(null)
  // How the session that has ended began.
  const [ended, setEnded] = useState<'link' | 'key' | null>(null)

  const current = useRef(session)
  useEffect(() => void (current.current = session), [session])

  const load = useCallback(() => {
    const shown = ({ app: of, view: next }: Found) => {
      // After the end of a session, the vendor's name and address for support stay.
      if (of) setApp(of)
      setView(next)
    }
    const refused = (problem: Refusal) => {
      if (problem.code === 'unauthenticated' && session) {
        endSession(session)
        setEnded(session.appId === null ? 'link' : 'key')
        setView({ kind: 'loading' })
        setSession(null)
      } else if (problem.code === 'not_found' && !session) setView({ kind: 'off' })
      else setView({ kind: 'problem', problem })
    }
    // An answer for a session that another link has replaced is ignored.
    const ifCurrent =
      <T,>(use: (value: T) => void) =>
      (value: T) => {
        if (current.current === session) use(value)
      }
    return find(session).then(ifCurrent(shown), ifCurrent(refused))
  }, [session])

  useEffect(() => void load(), [load])

  // Another link that is opened in this tab replaces the session.
  useEffect(() => {
    const replace = () => {
      setEnded(null)
      setView({ kind: 'loading' })
      setSession(currentSession())
    }
    window.addEventListener('hashchange', replace)
    return () => window.removeEventListener('hashchange', replace)
  }, [])

  useEffect(() => show(app, texts), [app, texts])

  const begin = (token: string) => {
    const begun: Session = { token, appId: appInPath() }
    keepSession(begun)
    setEnded(null)
    setView({ kind: 'loading' })
    setSession(begun)
  }
  /** For calls of the parts of the page: an ended session leads to the sentence that says so. */
  const withSession = async <T,>(work: (token: string) => Promise<T>): Promise<T> => {
    try {
      return await work(session!.token)
    } catch (error) {
      if (error instanceof Refusal && error.code === 'unauthenticated') await load()
      throw error
    }
  }
  // Nothing says which licence to show.
  const isLost = session === null && appInPath() === null
  const returnUrl = view.kind === 'licence' ? view.licence.return_url : null
  return (
    <div className="page">
      <header>
        <h1>{app?.name ?? texts.signIn.title}</h1>
        <Links app={app} returnUrl={returnUrl} texts={texts} />
      </header>
      <main>
        {ended && <Alert>{texts.problems.ended[ended]}</Alert>}
        {view.kind === 'loading' && !isLost && <p role="status">{texts.loading}</p>}
        {isLost && !ended && <p className="region">{texts.signIn.noSession}</p>}
        {view.kind === 'off' && <p className="region">{texts.signIn.off}</p>}
        {view.kind === 'sign-in' && <SignIn texts={texts} begin={begin} />}
        {view.kind === 'problem' && (
          <Alert>
            {problemText(view.problem, texts)}{' '}
            <button type="button" onClick={() => void load()}>
              {texts.tryAgain}
            </button>
          </Alert>
        )}
        {view.kind === 'licence' && (
          <>
            <LicenceRegion licence={view.licence} texts={texts} withSession={withSession} />
            <Machines licence={view.licence} texts={texts} withSession={withSession} reload={load} />
            {view.licence.offline_days > 0 && (
              <Offline licence={view.licence} texts={texts} withSession={withSession} reload={load} />
            )}
          </>
        )}
      </main>
    </div>
  )
}

interface Found {
  app: App | null
  view: View
}

/** @throws Refusal */
async function find(session: Session | null): Promise<Found> {
  if (session) {
    const licence = await call<Licence>('GET', '/v1/customer/licence', session)
    return { app: licence.app, view: { kind: 'licence', licence } }
  }
  const appId = appInPath()
  if (appId === null) return { app: null, view: { kind: 'loading' } }
  const app = await call<App>('GET', `/v1/apps/${encodeURIComponent(appId)}/customer-page`)
  return { app, view: { kind: 'sign-in' } }
}

function Links({
  app,
  returnUrl,
  texts,
}: {
  app: App | null
  returnUrl: string | null
  texts: Texts
}): ReactNode {
  return (
    <nav>
      {returnUrl !== null && <a href={returnUrl}>{texts.back}</a>}
      {app !== null && app.support_url !== null && <a href={app.support_url}>{texts.support}</a>}
    </nav>
  )
}

/** The name in the title, and the vendor's colour. */
function show(app: App | null, texts: Texts): void {
  document.title = app?.name ?? texts.signIn.title
  const { style } = document.documentElement
  if (!app?.accent_color) {
    for (const name of ['--accent', '--on-accent', '--link']) style.removeProperty(name)
    return
  }
  const { ground, on, textLight, textDark } = accentOf(app.accent_color)
  style.setProperty('--accent', ground)
  style.setProperty('--on-accent', on)
  style.setProperty('--link', `light-dark(${textLight}, ${textDark})`)
}
