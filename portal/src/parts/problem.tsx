import { LicensingApiError } from '@licensing/sdk/backend'
import type { UseQueryResult } from '@tanstack/react-query'
import { Button } from './button.tsx'
import styles from './problem.module.css'
import { Age } from './age.tsx'
import { None, sentence, Time } from './text.tsx'

interface ProblemProps {
  error: unknown
  /** Repeats the failed action. */
  retry?: (() => void) | undefined
  /** Pointers of errors that are already shown at their fields. */
  shown?: ReadonlySet<string>
  /** When the shown data was read, in milliseconds, if a later read failed. */
  readAt?: number
}

/** An error: its message, advice, and a button to try again. */
export function Problem({ error, retry, shown, readAt }: ProblemProps) {
  const { summary, remedy, requestId } = describe(error)
  const fields =
    error instanceof LicensingApiError ? error.errors.filter(({ pointer }) => !shown?.has(pointer)) : []
  return (
    <div role="alert" className={styles.problem}>
      <div className={styles.text}>
        <p className={styles.happened}>
          {readAt !== undefined && 'This could not be read again. '}
          {summary}
        </p>
        {readAt !== undefined && (
          <p>
            What is shown is <Age since={readAt} /> old: it was read on{' '}
            <Time at={new Date(readAt).toISOString()} to="second" />, and may have changed since.
          </p>
        )}
        {fields.length > 0 && (
          <ul className={styles.fields}>
            {fields.map(({ pointer, message }) => (
              <li key={pointer + message}>
                {pointer !== '' && <code>{pointer.slice(1)}</code>} {message}
              </li>
            ))}
          </ul>
        )}
        {remedy !== '' && readAt === undefined && <p>{remedy}</p>}
        {requestId !== null && (
          <p className={styles.request}>
            Request <code>{requestId}</code>
          </p>
        )}
      </div>
      {retry && <Button onClick={retry}>Try again</Button>}
    </div>
  )
}

/** Advice, if the message of the service has none. */
const remedies: Readonly<Record<string, string>> = {
  unauthenticated: 'Check the key. If it was revoked, ask for a new one.',
  insufficient_scope: 'Sign in with a key that has this scope.',
  origin_refused: 'Open the portal at its own address.',
  not_found: 'It may belong to another application: select it under “Application”.',
  validation_failed: 'Correct the fields, then try again.',
  already_exists: 'Choose another one, then try again.',
  quota_exceeded: 'Remove one that you do not need, or ask the operator to raise the quota.',
  rate_limited: 'Wait a moment, then try again.',
  unreachable: 'Check the connection, then try again. Your input is kept.',
  timeout: 'Try again: it is done only once.',
  unavailable: 'Try again in a moment: it is done only once.',
  unexpected_answer: 'Try again in a moment.',
  internal: 'Try again. If it happens again, report the request below to the operator.',
}

const errorTexts: Readonly<Record<string, string>> = {
  unreachable: 'The service cannot be reached.',
  timeout: 'The service did not answer in time.',
  unexpected_answer: 'The service sent an unexpected answer.',
}

function describe(error: unknown): { summary: string; remedy: string; requestId: string | null } {
  if (!(error instanceof LicensingApiError)) {
    const summary = error instanceof Error ? error.message : 'Something went wrong.'
    return { summary: sentence(summary), remedy: '', requestId: null }
  }
  const { code, errors, message, requestId, status } = error
  // The errors of the fields are listed below, or shown at the fields.
  const summary = errors.length > 0 ? 'Some fields are not valid.' : (errorTexts[code] ?? sentence(message))
  return { summary, remedy: remedies[code] ?? '', requestId: status >= 500 ? requestId : null }
}

/** The part of a query that says whether its data is current. */
export type Reading = Pick<UseQueryResult, 'data' | 'error' | 'dataUpdatedAt' | 'refetch'>

/** `old`: the last refresh failed, older data is shown. `unread`: no read has succeeded. */
export type Freshness = 'current' | 'old' | 'unread'

export function freshnessOf({ data, error }: Pick<Reading, 'data' | 'error'>): Freshness {
  if (error === null) return 'current'
  return data === undefined ? 'unread' : 'old'
}

/**
 * Shows that a query failed and how old its data is. A query keeps its data when it fails, so old data would otherwise look
 * current. If several queries failed, it describes the first and retries all of them.
 */
export function ReadProblem({ of }: { of: Reading | readonly Reading[] }) {
  const failed = [of].flat().filter(({ error }) => error !== null)
  const [first] = failed
  if (!first) return null
  return (
    <Problem
      error={first.error}
      retry={() => failed.forEach(({ refetch }) => void refetch())}
      {...(freshnessOf(first) === 'old' && { readAt: first.dataUpdatedAt })}
    />
  )
}

/** Shows the age of a number if it could not be read again. `ReadProblem` shows the error itself, once, above. */
export function Outdated({ of }: { of: Reading }) {
  if (freshnessOf(of) !== 'old') return null
  return (
    <>
      {' '}
      <None>
        · read <Age since={of.dataUpdatedAt} /> ago
      </None>
    </>
  )
}
