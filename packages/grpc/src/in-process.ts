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
  running: Set<Running>
}

/** A call that its handler has not answered. */
interface Running {
  answered: Promise<void>
  abandon(): void
}

/** The methods of the servers in this process, by `host:port` and path. */
const servers = new Map<string, Map<string, Method>>()

/**
 * Lets the programs of this process call a server directly, if there are several. `stop` ends that, and waits for running
 * calls; `abandon` ends these.
 */
export function serveInProcess(
  address: string,
  services: { definition: ServiceDefinition; handlers: UntypedServiceImplementation }[],
): { stop(): Promise<void>; abandon(): void } {
  const running = new Set<Running>()
  const methods = services.flatMap(({ definition, handlers }) =>
    Object.entries(definition).map(([name, method]): [string, Method] => [
      method.path,
      { definition: method, handle: handlers[name] as Method['handle'], running },
    ]),
  )
  const own = new Map(methods)
  if (sharesProcess()) servers.set(address, own)
  return {
    async stop() {
      if (servers.get(address) === own) servers.delete(address)
      await Promise.all([...running].map(({ answered }) => answered))
    },
    abandon() {
      for (const call of running) call.abandon()
    },
  }
}

/** Calls a method of the server with this address; undefined if there is none in this process. */
export function inProcess(address: string, path: string): Pick<Client, 'makeUnaryRequest'> | undefined {
  const method = servers.get(address)?.get(path)
  return method && { makeUnaryRequest: callsOf(method) as Client['makeUnaryRequest'] }
}

// Handlers do not see the context of their caller, as through the network.
const detached = AsyncLocalStorage.snapshot()

/**
 * As through the network, messages are copied, a message that cannot be encoded is INTERNAL, and the handler learns of a
 * deadline and a cancellation.
 */
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
    const end = ({ error, value }: Outcome) => {
      if (!isWaiting) return
      isWaiting = false
      clearTimeout(timer)
      if (error) callback(error as GrpcError)
      else callback(null, value)
    }
    const giveUp = (code: Status, details: string) => {
      end({ error: { code, details } })
      events.emit('cancelled')
    }
    const timer = setTimeout(
      () => giveUp(Status.DEADLINE_EXCEEDED, 'Deadline exceeded'),
      Math.max(0, deadline - Date.now()),
    )
    const sent = copied(request, serialize, definition.requestDeserialize)
    const answered = Promise.withResolvers<void>()
    const call: Running = {
      answered: answered.promise,
      abandon() {
        giveUp(Status.UNAVAILABLE, 'The server has stopped')
        answered.resolve()
      },
    }
    running.add(call)
    const finish = (outcome: () => Outcome) => {
      running.delete(call)
      answered.resolve()
      if (isWaiting) end(outcome())
    }
    const served: ServedCall = {
      request: sent.value,
      metadata,
      getDeadline: () => deadline,
      sendMetadata: (answer) => void events.emit('metadata', answer),
      once: events.once.bind(events) as ServedCall['once'],
    }
    const serve = () =>
      handle(served, (error, answer) =>
        finish(() => (error ? { error } : copied(answer, definition.responseSerialize, deserialize))),
      )
    // In another turn of the event loop, so that the caller listens, and calls that are answered at once do not keep timers
    // and sockets waiting.
    setImmediate(() => {
      if (Date.now() >= deadline) giveUp(Status.DEADLINE_EXCEEDED, 'Deadline exceeded')
      if (isWaiting && !sent.error) detached(serve)
      else finish(() => sent)
    })
    return {
      cancel: () => giveUp(Status.CANCELLED, 'Cancelled on client'),
      on: events.on.bind(events) as unknown as ClientUnaryCall['on'],
    }
  }
}

interface Outcome {
  error?: Partial<GrpcError> | undefined
  value?: unknown
}

/** A message as it arrives. */
function copied(
  message: unknown,
  serialize: (message: unknown) => Buffer,
  deserialize: (bytes: Buffer) => unknown,
): Outcome {
  try {
    return { value: deserialize(serialize(message)) }
  } catch (error) {
    return { error: { code: Status.INTERNAL, details: String(error) } }
  }
}
