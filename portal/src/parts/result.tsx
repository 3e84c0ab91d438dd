import { useEffect, useRef, type ReactNode } from 'react'

/** What came of a form, in its place: the button that had the focus is gone, this has it and is read. */
export function Result({ children }: { children: ReactNode }) {
  const shown = useRef<HTMLParagraphElement>(null)
  useEffect(() => shown.current?.focus(), [])
  return (
    <p ref={shown} tabIndex={-1}>
      {children}
    </p>
  )
}
