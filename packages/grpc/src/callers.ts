import { status as Status } from '@grpc/grpc-js'
import type { Metadata } from '@grpc/grpc-js'
import { currentMs } from '@licensing/process/clock'
import type { Logger } from '@licensing/process/log'
import { ConfigError } from '@licensing/process/config'
import type { PeerKeys } from '@licensing/process/peer-keys'
import { mayCall } from '@licensing/proto/callers'
import type { Callee, Caller } from '@licensing/proto/callers'
import { healthService } from './health-check.ts'
import { createHmac, timingSafeEqual } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { Counter } from 'prom-client'

/** Adds the signed name of this process to the metadata of a call. */
export type SignCall = (metadata: Metadata) => void

/** @returns the error if the call is refused */
export type CheckCaller = (
  metadata: Metadata,
  service: string,
  method: string,
) => { code: Status; details: string } | undefined

/** `accept` also serves calls without a name, while keys are being introduced. If a call has a name, it must be valid. */
export type CallerMode = 'off' | 'accept' | 'require'

interface CallerConfig {
  CALL_KEYS?: PeerKeys | undefined
  CALLER_KEYS?: PeerKeys | undefined
  CALLER_CHECK: CallerMode
}

const header = 'x-caller'
const lifeSeconds = 60
// Largest difference between the clocks of two machines.
const skewSeconds = 30
const maxVerified = 100

const unnamed = new Counter({
  name: 'grpc_unnamed_calls_total',
  help: 'Calls without the name of their caller that were let in: 0 before CALLER_CHECK is set to require',
})
const refused = new Counter({
  name: 'grpc_refused_callers_total',
  help: 'Calls that their caller may not make',
})

/** Signs calls of `self` to one peer. Without a key for the peer, calls are not signed. */
export function signCalls(
  self: Caller,
  peer: Callee,
  { CALL_KEYS: keys, CALLER_CHECK: mode }: Omit<CallerConfig, 'CALLER_KEYS'>,
): SignCall {
  const key = keys?.get(peer)?.[0]
  if (!key && mode !== 'off') throw new ConfigError(`CALL_KEYS has no key for calls of ${peer}`)
  let token = ''
  let renewAt = 0
  return (metadata) => {
    if (!key) return
    const now = currentMs() / 1000
    // The second condition is true if the clock was turned back.
    if (now >= renewAt || now < renewAt - lifeSeconds) {
      token = newToken(self, peer, Math.floor(now) + lifeSeconds, key)
      renewAt = now + lifeSeconds / 2
    }
    metadata.set(header, token)
  }
}

/** Checks calls to `self` against the table of allowed callers in `@licensing/proto/callers`. */
export function checkCallers(
  self: Callee,
  { CALLER_KEYS: keys, CALLER_CHECK: mode }: Omit<CallerConfig, 'CALL_KEYS'>,
  log: Logger,
): CheckCaller | undefined {
  if (mode === 'off') return undefined
  if (!keys) throw new ConfigError('CALLER_KEYS is missing, and CALLER_CHECK is not off')
  // A caller sends the same token for half a minute, so the cache saves most verifications.
  const verified = new LRUCache<string, Verified>({ max: maxVerified })
  const callerOf = (token: string) => {
    const known = verified.get(token) ?? verify(self, token, keys)
    if (!known || !isCurrent(known)) return undefined
    verified.set(token, known)
    return known.caller
  }
  return (metadata, service, method) => {
    const token = metadata.get(header)[0]?.toString()
    // Anyone may check the health. A caller that names itself learns that its calls would be refused.
    const isHealth = service === healthService
    if (token === undefined && isHealth) return undefined
    if (token === undefined && mode === 'accept') {
      unnamed.inc()
      return undefined
    }
    const caller = token === undefined ? undefined : callerOf(token)
    if (caller !== undefined && (isHealth || mayCall(caller, self, service, method))) return undefined
    refused.inc()
    log.warn(
      { caller: caller ?? 'unknown', service, method },
      'a call is refused: its caller may not make it',
    )
    return caller === undefined
      ? { code: Status.UNAUTHENTICATED, details: 'the caller is not known' }
      : { code: Status.PERMISSION_DENIED, details: `${caller} may not call ${service}/${method}` }
  }
}

function newToken(caller: string, callee: string, until: number, key: Buffer): string {
  return `${caller}.${until}.${mac(caller, callee, until, key).toString('base64url')}`
}

// The signature includes the callee, so that a token for one callee is not valid at another.
function mac(caller: string, callee: string, until: number, key: Buffer): Buffer {
  return createHmac('sha256', key).update(`licensing call\n${caller}\n${callee}\n${until}`).digest()
}

interface Verified {
  caller: string
  /** In seconds since 1970. */
  until: number
}

function isCurrent({ until }: Verified): boolean {
  const now = currentMs() / 1000
  return until >= now - skewSeconds && until <= now + lifeSeconds + skewSeconds
}

/** @returns undefined if the caller did not sign the token */
function verify(callee: string, token: string, keys: PeerKeys): Verified | undefined {
  const [, caller = '', text = '', sent = ''] =
    /^([a-z]{1,32})\.([0-9]{1,12})\.([A-Za-z0-9_-]{43})$/.exec(token) ?? []
  const until = Number(text)
  const bytes = Buffer.from(sent, 'base64url')
  const isRight = (keys.get(caller) ?? []).some((key) => {
    const expected = mac(caller, callee, until, key)
    return bytes.length === expected.length && timingSafeEqual(bytes, expected)
  })
  return isRight ? { caller, until } : undefined
}
