import { useSyncExternalStore } from 'react'

let said = ''
const listeners = new Set<() => void>()

/** Announces the result of an action to users of screen readers. Others see it on the page. */
export function announce(text: string): void {
  // The same text once more is a change only if it differs.
  said = said === text ? `${text}\u00a0` : text
  for (const listener of listeners) listener()
}

export function Announcer() {
  const text = useSyncExternalStore(subscribe, () => said)
  // Named although the role implies it: only then is it heard while a dialog is open.
  return (
    <p role="status" aria-live="polite" className="visually-hidden">
      {text}
    </p>
  )
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener)
  return () => listeners.delete(listener)
}
