import { Button } from './button.tsx'
import { Problem } from './problem.tsx'
import styles from './progress.module.css'
import { count } from './text.tsx'
import { removeWork, stopWork, type Work } from './work.ts'

interface ProgressProps {
  work: Work
  /** Continues with the remaining calls. */
  retry: () => void
}

/** The progress of long work, and its result. */
export function Progress({ work, retry }: ProgressProps) {
  const { id, title, done, total, failed, refusals, state, error } = work
  return (
    <div className={styles.progress}>
      <div className={styles.head}>
        <span>{title}</span>
        <span>{summary(work)}</span>
      </div>
      <ProgressBar name={title} done={done} total={state === 'finished' ? (total ?? done) : total} />
      {refusals.length > 0 && (
        <ul className={styles.refusals}>
          {refusals.map((text) => (
            <li key={text}>{text}</li>
          ))}
          {failed > refusals.length && <li>and {count(failed - refusals.length)} more</li>}
        </ul>
      )}
      {state === 'broken' && <Problem error={error} retry={retry} />}
      <div className={styles.buttons}>
        {state === 'running' && <Button onClick={() => stopWork(id)}>Stop</Button>}
        {(state === 'stopped' || (state === 'finished' && failed > 0)) && (
          <Button onClick={retry}>Try again</Button>
        )}
        {state !== 'running' && <Button onClick={() => removeWork(id)}>Close</Button>}
      </div>
    </div>
  )
}

interface BarProps {
  name: string
  done: number
  total: number | null
}

export function ProgressBar({ name, done, total }: BarProps) {
  const known = total === null ? {} : { value: done, max: Math.max(total, 1) }
  return <progress className={styles.bar} aria-label={name} {...known} />
}

function summary({ done, total, failed, state }: Work): string {
  const far = total === null ? count(done) : `${count(done)} of ${count(total)}`
  const refused = failed > 0 ? `, ${count(failed)} refused` : ''
  if (state === 'running') return `${far}${refused}`
  if (state === 'finished') return `Done: ${far}${refused}`
  return `Stopped at ${far}${refused}`
}
