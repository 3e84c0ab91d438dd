import { status as Status } from '@grpc/grpc-js'
import type {
  Client,
  ClientUnaryCall,
  Metadata,
  sendUnaryData,
  ServerUnaryCall,
  ServiceDefinition,
  ServiceError as GrpcError,
  UntypedServiceImplementation,
} from '@grpc/grpc-js'
import { sharesProcess } from '@licensing/process/run'
import { AsyncLocalStorage } from 'node:async_hooks'
import { EventEmitter } from 'node:events'

// npm start runs all services in one process, so their calls of each other need no network
// (docs/decisions/0029-npm-start-is-one-process.md).

/** A call as its handler sees it. */
export type ServedCall<Request = unknown> = Pick<
  ServerUnaryCall<Request, unknown>,
  'request' | 'metadata' | 'getDeadline' | 'sendMetadata' | 'once'
>

interface Method {
  definition: ServiceDefinition[string]
  handle: (call: ServedCall, callback: sendUnaryData<unknown>) => void
  /** Calls that have no answer. */
  running: Set<Promise<void>>
}

/** The methods of the servers in this process, by `host:port` and path. */
const servers = new Map<string, Map<string, Method>>()

/**
 * Lets the programs of this process call a server directly, if there are several.
 *
 * @returns ends that, and waits for running calls
 */
export function serveInProcess(
  address: string,
  services: { definition: ServiceDefinition; handlers: UntypedServiceImplementation }[],
): () => Promise<void> {
  if (!sharesProcess()) return () => Promise.resolve()
  const running = new Set<Promise<void>>()
  const methods = services.flatMap(({ definition, handlers }) =>
    Object.entries(definition).map(([name, method]): [string, Method] => [
      method.path,
      { definition: method, handle: handlers[name] as Method['handle'], running },
    ]),
  )
  servers.set(address, new Map(methods))
  return async () => {
    servers.delete(address)
    await Promise.all(running)
  }
}

/** Calls a method of the server with this address; undefined if there is none in this process. */
export function inProcess(address: string, path: string): Pick<Client, 'makeUnaryRequest'> | undefined {
  const method = servers.get(address)?.get(path)
  return method && { makeUnaryRequest: callsOf(method) as Client['makeUnaryRequest'] }
}

// Handlers do not see the context of their caller, as through the network.
const detached = AsyncLocalStorage.snapshot()

/** As through the network, messages are copied, and the handler learns of a deadline and a cancellation. */
function callsOf({ definition, handle, running }: Method) {
  return (
    _path: string,
    serialize: (request: unknown) => Buffer,
    deserialize: (bytes: Buffer) => unknown,
    request: unknown,
    metadata: Metadata,
    { deadline }: { deadline: number },
    callback: (error: GrpcError | null, answer?: unknown) => void,
  ): Pick<ClientUnaryCall, 'cancel' | 'on'> => {
    const events = new EventEmitter()
    let isWaiting = true
    const end = (error: Partial<GrpcError> | null, answer?: unknown) => {
      if (!isWaiting) return
      isWaiting = false
      clearTimeout(timer)
      if (error) callback(error as GrpcError)
      else callback(null, deserialize(definition.responseSerialize(answer)))
    }
    const giveUp = (code: Status, details: string) => {
      end({ code, details })
      events.emit('cancelled')
    }
    const timer = setTimeout(
      () => giveUp(Status.DEADLINE_EXCEEDED, 'Deadline exceeded'),
      Math.max(0, deadline - Date.now()),
    )
    const served: ServedCall = {
      request: definition.requestDeserialize(serialize(request)) as unknown,
      metadata,
      getDeadline: () => deadline,
      sendMetadata: (sent) => void events.emit('metadata', sent),
      once: events.once.bind(events) as ServedCall['once'],
    }
    const answered = Promise.withResolvers<void>()
    running.add(answered.promise)
    // The caller starts to listen after this function has returned.
    queueMicrotask(() =>
      detached(() =>
        handle(served, (error, answer) => {
          running.delete(answered.promise)
          answered.resolve()
          end(error, answer)
        }),
      ),
    )
    return {
      cancel: () => giveUp(Status.CANCELLED, 'Cancelled on client'),
      on: events.on.bind(events) as unknown as ClientUnaryCall['on'],
    }
  }
}
