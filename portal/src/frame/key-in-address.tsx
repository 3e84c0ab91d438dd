import { useQuery } from '@tanstack/react-query'
import { useEffect, useState } from 'react'
import { queryClient } from '../api/query-client.ts'
import { lookUpKey, sessionQuery, signIn } from '../api/session.ts'
import { Confirm } from '../parts/dialog.tsx'
import { Problem } from '../parts/problem.tsx'
import styles from './frame.module.css'

let found: string | null = null

/** Takes the key of a `/portal#key=` link out of the address; it is used once. */
export function takeKeyFromAddress(): void {
  const key = new URLSearchParams(location.hash.slice(1)).get('key')
  if (key === null) return
  history.replaceState(history.state, '', location.pathname + location.search)
  found = key.trim()
}

/** Shown until somebody is signed in otherwise. */
interface Failure {
  error: unknown
  session: string | null
}

interface Other {
  key: string
  name: string
  signedIn: string
}

/** Signs in with the key of a link, where another is signed in only when asked to. */
export function KeyInAddress() {
  const [other, setOther] = useState<Other | null>(null)
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
      signInWith(key).then((refused) => {
        setFailure(null)
        setOther(refused)
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
        open={other !== null}
        onClose={() => setOther(null)}
        run={() => (other ? signIn(other.key) : Promise.resolve())}
      >
        <p>
          You are signed in with the key <strong>{other?.signedIn}</strong>. Sign in with{' '}
          <strong>{other?.name}</strong>, the key of this link, instead?
        </p>
      </Confirm>
    </>
  )
}

/** Signs in, unless another key is: then says which. */
async function signInWith(key: string): Promise<Other | null> {
  const session = await queryClient.fetchQuery({ ...sessionQuery, staleTime: 0 })
  if (!session) {
    await signIn(key)
    return null
  }
  const linked = await lookUpKey(key)
  return linked.id === session.id ? null : { key, name: linked.name, signedIn: session.name }
}
