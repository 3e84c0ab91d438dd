/** A session, which is kept in this tab alone. Reloading the page goes on with it. */
export interface Session {
  token: string
  /** The application whose customer signed in with a key; null for a link. */
  appId: string | null
}

const name = 'customer-session'

// Storage can be forbidden or full. Then the session ends with the page.
let kept: string | null = null

function read(): string | null {
  try {
    return sessionStorage.getItem(name) ?? kept
  } catch {
    return kept
  }
}

export function keepSession(session: Session | null): void {
  kept = session && JSON.stringify(session)
  try {
    if (kept === null) sessionStorage.removeItem(name)
    else sessionStorage.setItem(name, kept)
  } catch {
    // The copy in memory is enough until the page is left.
  }
}

/** Forgets a session that has ended. The customer can sign in again if the session began with a key. */
export function endSession({ appId }: Session): void {
  keepSession(null)
  if (appId !== null) history.replaceState(null, '', `/customer/${appId}`)
}

/** The application in the path `/customer/{app_id}`. */
export function appInPath(): string | null {
  return /^\/customer\/([^/]+)\/?$/.exec(location.pathname)?.[1] ?? null
}

/** The session of this address: the one of its link, which leaves the address, or the one that the tab has. */
export function currentSession(): Session | null {
  const token = /^#(cst_[\w-]+)$/.exec(location.hash)?.[1]
  if (token !== undefined) {
    history.replaceState(null, '', '/customer')
    keepSession({ token, appId: null })
  }
  const stored = read()
  if (stored === null) return null
  const session = JSON.parse(stored) as Session
  const appId = appInPath()
  return appId === null || session.appId === appId ? session : null
}
