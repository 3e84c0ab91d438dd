import { Link } from '@tanstack/react-router'
import { ProgressBar } from '../parts/progress.tsx'
import { useWork } from '../parts/work.ts'
import styles from './frame.module.css'

/** Long work that goes on while other pages are looked at, and the way back to it. */
export function RunningWork() {
  const running = [...useWork().values()].filter(({ state }) => state === 'running')
  if (running.length === 0) return null
  return (
    <ul role="list" aria-label="Running work" className={styles.work}>
      {running.map(({ id, title, address, done, total }) => (
        <li key={id}>
          <Link to={address}>{title}</Link>
          <ProgressBar name={`${title}, in short`} done={done} total={total} />
        </li>
      ))}
    </ul>
  )
}
