import { useSyncExternalStore } from 'react'
import { announce } from './announce.tsx'

/** A task of many calls. It continues while the user is on other pages. The page that started it shows it. */
export interface Work {
  id: string
  /** A title: "Reactivating licences of Pro". */
  title: string
  /** The address, below /portal, of the page that started it. */
  address: string
  done: number
  /** Null if it is known only at the end. */
  total: number | null
  /** How many of the finished calls were refused. */
  failed: number
  /** The messages of the first refusals. */
  refusals: readonly string[]
  state: 'running' | 'stopped' | 'finished' | 'broken'
  /** The error of a broken task. */
  error: unknown
}

type Report = (change: Partial<Pick<Work, 'done' | 'total' | 'failed' | 'refusals'>>) => void

let all: ReadonlyMap<string, Work> = new Map()
const stops = new Map<string, AbortController>()
const listeners = new Set<() => void>()

/** Starts a task, unless it is running. `run` reports its progress and stops at the signal. */
export function startWork(
  begun: Pick<Work, 'id' | 'title' | 'address' | 'total'>,
  run: (report: Report, signal: AbortSignal) => Promise<void>,
): void {
  const { id } = begun
  if (all.get(id)?.state === 'running') return
  const stop = new AbortController()
  stops.set(id, stop)
  put({ ...begun, done: 0, failed: 0, refusals: [], state: 'running', error: null })
  const change = (fields: Partial<Work>) => {
    const work = all.get(id)
    if (work) put({ ...work, ...fields })
  }
  const end = (state: 'stopped' | 'finished' | 'broken', error: unknown = null) => {
    change({ state, error })
    announce(`${begun.title}: ${state === 'finished' ? 'done' : 'stopped'}`)
  }
  run(change, stop.signal).then(
    () => end(stop.signal.aborted ? 'stopped' : 'finished'),
    (error: unknown) => (stop.signal.aborted ? end('stopped') : end('broken', error)),
  )
}

export function stopWork(id: string): void {
  stops.get(id)?.abort()
}

/** Removes a task that has ended from the page. */
export function removeWork(id: string): void {
  all = new Map([...all].filter(([key]) => key !== id))
  notify()
}

export function useWork(): ReadonlyMap<string, Work> {
  return useSyncExternalStore(subscribe, () => all)
}

function put(work: Work): void {
  all = new Map(all).set(work.id, work)
  notify()
}

function notify(): void {
  for (const listener of listeners) listener()
}

function subscribe(listener: () => void): () => void {
  listeners.add(listener)
  return () => listeners.delete(listener)
}

addEventListener('beforeunload', (event) => {
  if ([...all.values()].some(({ state }) => state === 'running')) event.preventDefault()
})
