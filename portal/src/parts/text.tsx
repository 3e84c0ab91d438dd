import { decimalsOf, mainUnits } from '@licensing/money/amounts'
import type { Schemas } from '@licensing/sdk/backend'
import type { ReactNode } from 'react'
import styles from './text.module.css'

const dayFormat = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeZone: 'UTC' })
const minuteFormat = new Intl.DateTimeFormat('en-GB', {
  dateStyle: 'medium',
  timeStyle: 'short',
  timeZone: 'UTC',
})
const secondFormat = new Intl.DateTimeFormat('en-GB', {
  dateStyle: 'medium',
  timeStyle: 'medium',
  timeZone: 'UTC',
})
const formats = { day: dayFormat, minute: minuteFormat, second: secondFormat }

interface TimeProps {
  at: string | null | undefined
  /** Precision. */
  to?: keyof typeof formats
  /** Text if there is no time. */
  none?: string
}

/** A time in UTC. */
export function Time({ at, to = 'minute', none }: TimeProps) {
  if (!at) return <None>{none}</None>
  return (
    <time dateTime={at} title={at} className={styles.time}>
      {formats[to].format(new Date(at))}
    </time>
  )
}

export function day(at: string): string {
  return dayFormat.format(new Date(at))
}

export function minute(at: string): string {
  return minuteFormat.format(new Date(at))
}

/** Formats an amount in minor units. The number of decimals comes from the processor, because `Intl` differs for some currencies. */
export function money(minor: number, currency: string): string {
  const decimals = decimalsOf(currency)
  const format = new Intl.NumberFormat('en', {
    style: 'currency',
    currency,
    minimumFractionDigits: decimals,
    maximumFractionDigits: decimals,
  })
  return format.format(mainUnits(minor, currency))
}

export function count(value: number): string {
  return value.toLocaleString('en')
}

/** Turns a code into words: `provision_failed` into `provision failed`. */
export function words(code: string): string {
  return code.replaceAll('_', ' ')
}

/** A message of the service, as a sentence with a capital and a full stop. */
export function sentence(text: string): string {
  // An id at the beginning stays as it is.
  const first = /^[a-z]+_/.test(text) ? text : text.charAt(0).toUpperCase() + text.slice(1)
  return /[.!?]$/.test(first) ? first : `${first}.`
}

const dash = '–'

/** An absent value. If a row is shown as a card, the dash is hidden: `table.module.css`. */
export function None({ children = dash }: { children?: ReactNode }) {
  return (
    <span className={styles.none} data-dash={children === dash || undefined}>
      {children}
    </span>
  )
}

/** Every status of the API, and texts that the portal shows like a status. */
type ShownStatus =
  | Schemas['Licence']['status']
  | Schemas['Plan']['status']
  | Schemas['CheckoutSession']['status']
  | Schemas['Refund']['status']
  | Schemas['WebhookDelivery']['status']
  | Schemas['WebhookEndpoint']['status']
  | 'healthy'
  | 'failing'
  | 'paused'
  | 'trial'
  | 'removed'
  | Schemas['LicenceDetail']['effective'][number]['from']

/** The colour of each status. */
export const tones: Record<ShownStatus, 'good' | 'warn' | 'bad' | 'accent' | 'neutral'> = {
  active: 'good',
  enabled: 'good',
  delivered: 'good',
  provisioned: 'good',
  succeeded: 'good',
  healthy: 'good',
  pending: 'warn',
  paused: 'warn',
  open: 'warn',
  suspended: 'warn',
  downgraded: 'warn',
  override: 'accent',
  trial: 'accent',
  revoked: 'bad',
  failed: 'bad',
  failing: 'bad',
  provision_failed: 'bad',
  expired: 'neutral',
  retired: 'neutral',
  canceled: 'neutral',
  disabled: 'neutral',
  removed: 'neutral',
  won: 'neutral',
  lost: 'neutral',
  closed: 'neutral',
  default: 'neutral',
  snapshot: 'neutral',
}

/** A status: a word, with a colour beside it. */
export function Status({ of }: { of: ShownStatus }) {
  return <span className={`${styles.status} ${styles[tones[of]]}`}>{words(of)}</span>
}

/** A long text in a dense table: cut off on one line, complete on a phone and for screen readers. */
export function Clipped({ text, narrow = false }: { text: string; narrow?: boolean }) {
  return (
    <span className={narrow ? `${styles.clipped} ${styles.narrow}` : styles.clipped} title={text}>
      {text}
    </span>
  )
}

/** A placeholder of one line for a text that is loading, so that nothing moves when it is loaded. */
export function Waiting({ length }: { length: 'short' | 'long' }) {
  return (
    <span className={`${styles.waiting} ${styles[length]}`} aria-hidden="true">
      {'\u00a0'}
    </span>
  )
}
