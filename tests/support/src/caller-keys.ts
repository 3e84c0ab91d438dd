import { newEncryptionKey } from '@licensing/local-servers/secrets'
import { DATABASE_SERVICES, type ServiceName } from '@licensing/local-servers/services'

const callers = ['gateway', ...DATABASE_SERVICES] as const

/** `CALL_KEYS` and `CALLER_KEYS` of each component, with a key for every pair. */
export function newCallerKeys(): Record<ServiceName, { CALL_KEYS: string; CALLER_KEYS: string }> {
  const keys = new Map<string, string>()
  for (const caller of callers) {
    for (const callee of DATABASE_SERVICES) keys.set(`${caller}>${callee}`, newEncryptionKey())
  }
  const of = (self: ServiceName) => {
    const pairs = [...keys].map(([pair, key]) => [...pair.split('>'), key])
    return {
      CALL_KEYS: pairs.flatMap(([from, to, key]) => (from === self ? `${to}:${key}` : [])).join(','),
      CALLER_KEYS: pairs.flatMap(([from, to, key]) => (to === self ? `${from}:${key}` : [])).join(','),
    }
  }
  return Object.fromEntries(callers.map((self) => [self, of(self)])) as ReturnType<typeof newCallerKeys>
}
