import { useSyncExternalStore } from 'react'

let said = ''
const listeners = new Set<() => void>()

/** Announces the result of an action to users of screen readers. Others see it on the page. */
export function announce(text: string): void {
  // Screen readers announce only a text that changed, so a repeated text gets a space at its end.
  said = said === text ? `${text}\u00a0` : text
  for (const listener of listeners) listener()
}

export function Announcer() {
  const text = useSyncExternalStore(subscribe, () => said)
  // The role implies `aria-live`. It is set explicitly, because only then is the text announced while a dialog is open.
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
