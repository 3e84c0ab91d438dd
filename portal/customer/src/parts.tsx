import type { ReactNode } from 'react'
import { Refusal } from './api.ts'
import type { Texts } from './texts/en.ts'

/** Runs a call with the session's token. */
export type WithSession = <T>(work: (token: string) => Promise<T>) => Promise<T>

export function Alert({ children }: { children: ReactNode }) {
  return (
    <div role="alert" className="alert">
      {children}
    </div>
  )
}

/** A region that is named by its heading. */
export function Region({ id, title, children }: { id: string; title: string; children: ReactNode }) {
  return (
    <section aria-labelledby={id} className="region">
      <h2 id={id}>{title}</h2>
      {children}
    </section>
  )
}

/** A date in the page's language, as the browser's country writes it. */
export function dateText(iso: string, { language }: Texts, dateStyle: 'long' | 'medium' = 'long'): string {
  const tags = navigator.languages.filter((tag) => tag.toLowerCase().startsWith(language))
  return new Intl.DateTimeFormat([...tags, language], { dateStyle }).format(new Date(iso))
}

/** The text of a problem: its cause, and what to do. @param own the texts of this call, by the code of the refusal */
export function problemText(problem: unknown, { problems }: Texts, own: Record<string, string> = {}): string {
  if (!(problem instanceof Refusal)) return problems.other
  const { code, pointer, retrySeconds } = problem
  const known = own[pointer === undefined ? code : `${code} ${pointer}`] ?? own[code]
  if (known !== undefined) return known
  if (code === 'unauthenticated') return problems.ended.link
  if (code === 'rate_limited') return problems.tooMany(retrySeconds)
  if (code === 'offline') return problems.offline
  return code === 'unavailable' || code === 'internal' ? problems.busy : problems.other
}
