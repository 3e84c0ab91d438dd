import { useQuery } from '@tanstack/react-query'
import { Fragment, type ReactNode } from 'react'
import { sessionQuery } from '../api/session.ts'
import { Problem } from '../parts/problem.tsx'
import { SignIn } from '../pages/sign-in/sign-in.tsx'
import styles from './frame.module.css'

/** Signed in: the page. Signed out, or refused on the way: the sign-in form in its place. */
export function SessionGate({ children }: { children: ReactNode }) {
  const { data, error, refetch } = useQuery(sessionQuery)
  // Another key sees other things: its pages begin with nothing.
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
