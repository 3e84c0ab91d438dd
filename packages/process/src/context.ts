import { AsyncLocalStorage } from 'node:async_hooks'

/** Values of a request that are passed on in log lines, metadata of calls and events. */
export interface RequestContext {
  requestId: string
  accountId?: string
  /** Who makes the request, and which operation, for the audit log: only if it may make a change that the log shows. */
  caller?: RequestCaller
}

/** The actor of the operator's commands. */
export const operator = 'operator'

export interface RequestCaller {
  /** The id of an API key or member, or `operator`. */
  actor: string
  /** The operation's id in the OpenAPI document, or the operator's command. */
  operation: string
}

const storage = new AsyncLocalStorage<RequestContext>()

/** Runs `work` with a request context. `requestContext()` returns it in `work` and in everything that `work` calls. */
export function withRequestContext<T>(context: RequestContext, work: () => T): T {
  return storage.run(context, work)
}

/** The context of the request being served, or undefined in background work. */
export function requestContext(): RequestContext | undefined {
  return storage.getStore()
}
