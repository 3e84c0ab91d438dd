import { useQuery } from '@tanstack/react-query'
import { useEffect, useState } from 'react'
import { queryClient } from '../api/query-client.ts'
import { lookUpKey, sessionQuery, signIn } from '../api/session.ts'
import { Confirm } from '../parts/dialog.tsx'
import { Problem } from '../parts/problem.tsx'
import styles from './frame.module.css'

let found: string | null = null

/** Removes the key of a `/portal#key=` link from the address, so that it is used once. */
export function takeKeyFromAddress(): void {
  const key = new URLSearchParams(location.hash.slice(1)).get('key')
  if (key === null) return
  history.replaceState(history.state, '', location.pathname + location.search)
  found = key.trim()
}

/** Shown while nobody is signed in. */
interface Failure {
  error: unknown
  session: string | null
}

/** The key of a link, with its name and scopes. */
interface Linked {
  key: string
  name: string
  scopes: readonly string[]
  /** The name of the key that is signed in. */
  instead: string | null
}

/**
 * Asks before it signs in with the key of a link. Another person may have made the link, and everything that is entered afterwards goes to the
 * account of that key.
 */
export function KeyInAddress() {
  const [linked, setLinked] = useState<Linked | null>(null)
  const [failure, setFailure] = useState<Failure | null>(null)
  const { data: session } = useQuery(sessionQuery)

  useEffect(() => {
    const fail = (error: unknown) => {
      const { id = null } = queryClient.getQueryData(sessionQuery.queryKey) ?? {}
      setFailure({ error, session: id })
    }
    const use = () => {
      takeKeyFromAddress()
      if (found === null) return
      const key = found
      found = null
      lookUpLinkedKey(key).then((wanted) => {
        setFailure(null)
        setLinked(wanted)
      }, fail)
    }
    use()
    addEventListener('hashchange', use)
    return () => removeEventListener('hashchange', use)
  }, [])

  return (
    <>
      {failure && failure.session === (session?.id ?? null) && (
        <div className={styles.linkProblem}>
          <Problem error={failure.error} />
        </div>
      )}
      <Confirm
        action="Sign in"
        kind="primary"
        open={linked !== null}
        onClose={() => setLinked(null)}
        run={() => (linked ? signIn(linked.key) : Promise.resolve())}
      >
        <p>
          This link signs you in with the key <strong>{linked?.name}</strong> ({linked?.scopes.join(', ')})
          {linked?.instead != null && (
            <>
              , instead of <strong>{linked.instead}</strong>, with which you are signed in
            </>
          )}
          .
        </p>
        <p>
          Everything that you enter is then for the account of this key. Continue only if you expected this
          link.
        </p>
      </Confirm>
    </>
  )
}

/** Looks up the key of a link; null if this key is signed in already, so that there is nothing to ask. */
async function lookUpLinkedKey(key: string): Promise<Linked | null> {
  const session = await queryClient.fetchQuery({ ...sessionQuery, staleTime: 0 })
  const { id, name, scopes } = await lookUpKey(key)
  return id === session?.id ? null : { key, name, scopes, instead: session?.name ?? null }
}
