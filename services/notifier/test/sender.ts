import { createAddressRefusal, parseNetworks } from '../src/http-client/address.ts'
import { createConnector } from '../src/http-client/connector.ts'
import type { Resolve } from '../src/http-client/resolver.ts'
import { type Attempt, Sender, type SenderOptions } from '../src/http-client/sender.ts'
import { certificate } from './receiver.ts'

type Options = Partial<Omit<SenderOptions, 'connect'>> & {
  resolve?: Resolve
  allowed?: string
  extraCa?: string | undefined
}

export const toLoopback: Resolve = async () => ['127.0.0.1']

/** A sender that may reach loopback and finds every name there. */
export function givenSender(options: Options = {}): Sender & AsyncDisposable {
  const { resolve = toLoopback, allowed = '127.0.0.0/8', ...rest } = options
  const refusal = createAddressRefusal(parseNetworks(allowed))
  const extraCa = 'extraCa' in options ? options.extraCa : certificate.authority
  const sender = new Sender({ connect: createConnector({ resolve, refusal, extraCa }), ...rest })
  return Object.assign(sender, { [Symbol.asyncDispose]: () => sender.close() })
}

export const attemptTo = (url: string, attempt: Partial<Attempt> = {}): Attempt => ({
  endpointId: 'whe_1',
  url,
  headers: ['Content-Type', 'application/json'],
  body: Buffer.from('{"type":"webhook.test"}'),
  ...attempt,
})
