import type { DescService } from '@bufbuild/protobuf'
import { ServiceError } from '@licensing/grpc/errors'
import { implement, serve, type Handlers } from '@licensing/grpc/server'
import { Health } from '@licensing/process/health'
import { createLogger } from '@licensing/process/log'

/** A peer of a component: a real gRPC server by the same contract, that can do what the test needs. */
export interface Stub extends AsyncDisposable {
  readonly address: string
}

/** Calls that are not among `handlers` are refused. */
export async function startStub<S extends DescService>(
  service: S,
  handlers: Partial<Handlers<S>>,
): Promise<Stub> {
  const refuse = () => Promise.reject(new ServiceError('unavailable', 'the stub does not do this'))
  const all = Object.fromEntries(service.methods.map(({ localName }) => [localName, refuse]))
  const server = await serve({
    address: { host: '127.0.0.1', port: 0 },
    services: [implement(service, { ...all, ...handlers })],
    log: createLogger('stub', 'silent'),
    health: new Health(),
  })
  return { address: `127.0.0.1:${server.port}`, [Symbol.asyncDispose]: () => server.stop() }
}
