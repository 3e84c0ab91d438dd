import { useEffect, useState } from 'react'
import { count } from './text.tsx'

const STEP_MS = 5000

/** How long ago a time was, in words. The text is updated as time passes. */
export function Age({ since }: { since: number }) {
  const [now, setNow] = useState(() => Date.now())
  useEffect(() => {
    const timer = setInterval(() => setNow(Date.now()), STEP_MS)
    return () => clearInterval(timer)
  }, [])
  return inWords(Math.max(0, Math.floor((now - since) / 1000)))
}

function inWords(seconds: number): string {
  if (seconds < 60) return counted(seconds, 'second')
  const minutes = Math.floor(seconds / 60)
  return minutes < 60 ? counted(minutes, 'minute') : counted(Math.floor(minutes / 60), 'hour')
}

function counted(number: number, unit: string): string {
  return `${count(number)} ${unit}${number === 1 ? '' : 's'}`
}
