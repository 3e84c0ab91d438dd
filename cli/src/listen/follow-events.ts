import { setTimeout as pause } from 'node:timers/promises'
import { createLicensingBackend, LicensingApiError } from '@licensing/sdk/backend'
import type { Connection } from '../command/context.ts'

export interface RecordedEvent {
  readonly id: string
  readonly type: string
  readonly sequence: number
  /** The envelope, byte for byte as in a delivery. */
  readonly body: Buffer
}

interface Following {
  readonly connection: Connection
  /** The sequence to start after; `latest`: start with events recorded from now on. */
  readonly after: number | 'latest'
  readonly signal: AbortSignal
  /** Called once when the service has accepted the key. Events recorded from now on are included. */
  onStart(): void
  /** Called once when the service stops answering. */
  onUnavailable(error: LicensingApiError): void
  /** Called when it answers again. */
  onAvailable(): void
}

const POLL_MS = 500
const RETRY_MS = 1_000
const TIMEOUT_MS = 15_000
const PAGE = 100

/**
 * Yields the account's events in order, each once, until the signal is aborted. Throws if the service refuses a call.
 */
export async function* followEvents(following: Following): AsyncGenerator<RecordedEvent, void, void> {
  const { signal, onStart, onUnavailable, onAvailable } = following
  const read = pageReader(following)
  let { after } = following
  let isAvailable = true
  let hasStarted = false
  while (!signal.aborted) {
    try {
      const page = await read(after)
      if (!isAvailable) onAvailable()
      isAvailable = true
      if (!hasStarted) onStart()
      hasStarted = true
      yield* page.events
      const isFirst = after === 'latest'
      after = page.nextAfter
      if (page.events.length === 0 && !isFirst) await pause(POLL_MS, undefined, { signal })
    } catch (error) {
      if (signal.aborted) return
      if (!(error instanceof LicensingApiError) || !passes(error)) throw error
      if (isAvailable) onUnavailable(error)
      isAvailable = false
      await pause(RETRY_MS, undefined, { signal }).catch(() => undefined)
    }
  }
}

/** Whether a later try may succeed. A proxy in front of the service answers 502 or 504 with a body of its own. */
const passes = ({ status }: LicensingApiError) => status === 0 || status === 429 || status >= 500

function pageReader({ connection, signal }: Following) {
  let text = ''
  const backend = createLicensingBackend({
    ...connection,
    retries: 0,
    timeoutMs: TIMEOUT_MS,
    fetch: async (...request) => {
      const response = await fetch(...request)
      text = await response.clone().text()
      return response
    },
  })
  return async (after: number | 'latest') => {
    const page = await backend.get('/v1/events', { query: { after, limit: PAGE }, signal })
    const bodies = elementsOf(text)
    const events = page.data.map(({ id, type, sequence }, at): RecordedEvent => {
      return { id, type, sequence, body: Buffer.from(bodies[at]!) }
    })
    return { events, nextAfter: page.next_after }
  }
}

/**
 * The texts of the objects in the list of `{"data":[{…},{…}],…}`, unchanged. A signature covers bytes, and parsing
 * and serialising an object can change them.
 */
export function elementsOf(text: string): string[] {
  const elements: string[] = []
  let depth = 0
  let start = 0
  for (const { 0: token, index } of text.matchAll(/"(?:[^"\\]|\\.)*"|[[\]{}]/gs)) {
    if (token === '{' || token === '[') {
      if (depth === 2) start = index
      depth++
    } else if (token === '}' || token === ']') {
      depth--
      if (depth === 2) elements.push(text.slice(start, index + 1))
    }
  }
  return elements
}
