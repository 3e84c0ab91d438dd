/** Types of an OpenAPI document, as openapi-typescript writes them, turned into arguments and answers. */

export type Method = 'get' | 'post' | 'put' | 'patch' | 'delete'

/** The paths that have an operation of this method. */
export type PathsWith<Paths, M extends Method> = {
  [Path in keyof Paths]: Paths[Path] extends Record<M, object> ? Path : never
}[keyof Paths] &
  string

export type OperationOf<Paths, M extends Method, Path extends keyof Paths> =
  Paths[Path] extends Record<M, infer Operation> ? Operation : never

/** The input of an operation. */
export type RequestOf<Operation> = PathPart<ParameterOf<Operation, 'path'>> &
  QueryPart<ParameterOf<Operation, 'query'>> &
  BodyPart<Operation> &
  KeyPart<ParameterOf<Operation, 'header'>> & {
    /** Ends the call and its retries. */
    readonly signal?: AbortSignal | undefined
  }

/** The answer of a successful operation; undefined if it has no body. */
export type AnswerOf<Operation> = Operation extends { responses: infer Responses }
  ? { [Status in keyof Responses & (200 | 201 | 202 | 204)]: JsonOf<Responses[Status]> }[keyof Responses &
      (200 | 201 | 202 | 204)]
  : never

/** The paths that answer with a page of a list. */
export type ListPaths<Paths> = {
  [Path in PathsWith<Paths, 'get'>]: AnswerOf<OperationOf<Paths, 'get', Path>> extends {
    next_cursor: unknown
  }
    ? Path
    : never
}[PathsWith<Paths, 'get'>]

/** The rows of a page. */
export type RowOf<Operation> = AnswerOf<Operation> extends { data: readonly (infer Row)[] } ? Row : never

type ParameterOf<Operation, Place extends string> = Operation extends {
  parameters: { [_ in Place]?: infer Parameters }
}
  ? NonNullable<Parameters>
  : never

type PathPart<Parameters> = [Parameters] extends [never]
  ? { readonly path?: never }
  : { readonly path: Parameters }

type QueryPart<Parameters> = [Parameters] extends [never]
  ? { readonly query?: never }
  : Partial<Parameters> extends Parameters
    ? { readonly query?: Parameters }
    : { readonly query: Parameters }

type BodyPart<Operation> = Operation extends { requestBody: infer Body }
  ? { readonly body: JsonOf<Body> }
  : Operation extends { requestBody?: infer Body }
    ? [NonNullable<Body>] extends [never]
      ? { readonly body?: never }
      : { readonly body?: JsonOf<NonNullable<Body>> }
    : { readonly body?: never }

type KeyPart<Headers> = [Headers] extends [never]
  ? NoKey
  : 'idempotency-key' extends Lowercase<keyof Headers & string>
    ? Partial<Headers> extends Headers
      ? OptionalKey
      : Key
    : NoKey

interface Key {
  /** A repetition with the same key has no second effect: store it with the order or job that the call is for. */
  readonly idempotencyKey: string
}

interface OptionalKey {
  /** Your own key, so that a repetition after a restart of your backend is the same call. Default: a new key per call. */
  readonly idempotencyKey?: string | undefined
}

interface NoKey {
  readonly idempotencyKey?: never
}

type JsonOf<Content> = Content extends { content: { 'application/json': infer Json } } ? Json : undefined
