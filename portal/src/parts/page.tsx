import { useEffect, useId, type ReactNode } from 'react'
import { useSession, type Scope } from '../api/session.ts'
import styles from './page.module.css'

interface PageProps {
  /** The heading, and the first words of the window's title. */
  title: string
  /** The key needs one of these scopes to read the page. */
  needs: readonly Scope[]
  /** Beside the heading: details and actions. */
  aside?: ReactNode
  children: ReactNode
}

/** A page with its heading. It has its content only if the key's scopes allow reading it. */
export function Page({ title, needs, aside, children }: PageProps) {
  const { can } = useSession()
  useTitle(title)
  return (
    <>
      <header className={styles.head}>
        <h1 tabIndex={-1}>{title}</h1>
        {needs.some(can) && aside}
      </header>
      {needs.some(can) ? children : <ScopeNeeded needs={needs} />}
    </>
  )
}

export function useTitle(title: string): void {
  useEffect(() => {
    document.title = `${title} · Licensing`
  }, [title])
}

function ScopeNeeded({ needs }: { needs: readonly Scope[] }) {
  return (
    <Box>
      <p>
        This page needs a key with the scope{' '}
        {needs.map((scope, i) => (
          <span key={scope}>
            {i > 0 && ' or '}
            <code>{scope}</code>
          </span>
        ))}
        . Sign in with such a key, or ask the person who made this one.
      </p>
    </Box>
  )
}

interface SectionProps {
  /** The heading, which names the region. */
  title: string
  /** The fragment of an address that links to the section, after `#`. */
  id?: string
  /** Buttons beside the heading. */
  actions?: ReactNode
  children: ReactNode
}

/** A part of a page: a region named by its heading. */
export function Section({ title, id, actions, children }: SectionProps) {
  const headingId = useId()
  return (
    <section id={id} className={styles.section} aria-labelledby={headingId}>
      <div className={styles.sectionHead}>
        <h2 id={headingId} {...(id !== undefined && { tabIndex: -1 })}>
          {title}
        </h2>
        {actions && <div className={styles.actions}>{actions}</div>}
      </div>
      {children}
    </section>
  )
}

/** Buttons side by side. */
export function Actions({ children }: { children: ReactNode }) {
  return <div className={styles.actions}>{children}</div>
}

/** A framed part of a page, for texts, forms and buttons. */
export function Box({ children }: { children: ReactNode }) {
  return <div className={styles.box}>{children}</div>
}
