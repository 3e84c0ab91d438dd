import { useQuery } from '@tanstack/react-query'
import { Fragment, type ReactNode } from 'react'
import { providerQuery, sessionQuery, signIn, signInAtProvider } from '../api/session.ts'
import { Button } from '../parts/button.tsx'
import { Problem } from '../parts/problem.tsx'
import styles from './frame.module.css'
import { TextField } from '../parts/fields.tsx'
import { Form } from '../parts/form.tsx'
import { useTitle } from '../parts/page.tsx'

/** Shows the page if a key is signed in, else the sign-in form. */
export function SessionGate({ children }: { children: ReactNode }) {
  const { data, error, refetch } = useQuery(sessionQuery)
  // Another key may see other data, so its pages start without any state.
  if (data) return <Fragment key={data.id}>{children}</Fragment>
  if (data === null) return <SignIn />
  if (!error) return null
  return (
    <main className={styles.alone}>
      <h1>Licensing</h1>
      <Problem error={error} retry={() => void refetch()} />
    </main>
  )
}

/** Shown instead of the requested page. The address stays, so the page follows after the sign-in. */
function SignIn() {
  useTitle('Sign in')
  const { data: provider } = useQuery(providerQuery)
  const name = provider?.name ?? null
  return (
    <main className={styles.page}>
      <div className={styles.card}>
        <h1>Sign in</h1>
        {name !== null && (
          <Button kind="primary" onClick={() => signInAtProvider()}>
            Sign in with {name}
          </Button>
        )}
        <p className={name === null ? styles.lead : styles.or}>
          {name === null ? 'Sign in to the licensing portal' : 'Or sign in'} with an API key of your account.
        </p>
        <Form submit="Sign in" isSecret run={(values) => signIn(values.text('key'))}>
          <TextField
            label="API key"
            name="key"
            className={styles.key}
            required
            hint={
              <>
                It starts with <code>lsk_</code>. You have the rights of the key.
              </>
            }
          />
        </Form>
      </div>
    </main>
  )
}
