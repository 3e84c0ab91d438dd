import type { AnswerOf, ListPaths, Method, OperationOf, PathsWith, RequestOf, RowOf } from './operations.ts'
import { send, type BackendOptions, type PlainRequest } from './request.ts'

/** If a request has no required fields, it may be left out. */
type Arguments<Request> = {} extends Request ? [request?: Request] : [request: Request]

type Call<Paths, M extends Method> = <Path extends PathsWith<Paths, M>>(
  path: Path,
  ...request: Arguments<RequestOf<OperationOf<Paths, M, Path>>>
) => Promise<AnswerOf<OperationOf<Paths, M, Path>>>

type Rows<Paths> = <Path extends ListPaths<Paths>>(
  path: Path,
  ...request: Arguments<RequestOf<OperationOf<Paths, 'get', Path>>>
) => AsyncGenerator<RowOf<OperationOf<Paths, 'get', Path>>, void, void>

/** One function per method. Each throws `LicensingApiError` if the call fails. */
export interface TypedClient<Paths> {
  readonly get: Call<Paths, 'get'>
  readonly post: Call<Paths, 'post'>
  readonly put: Call<Paths, 'put'>
  readonly patch: Call<Paths, 'patch'>
  readonly delete: Call<Paths, 'delete'>
  /** All rows of a list; the next page is read when it is needed. */
  readonly rows: Rows<Paths>
}

/** The types differ by operation; the implementation is the same for all. */
export function createTypedClient<Paths>(options: BackendOptions): TypedClient<Paths> {
  const call =
    (method: Method) =>
    (path: string, request: PlainRequest = {}) =>
      send(options, method, path, request)

  async function* rows(path: string, request: PlainRequest = {}) {
    let cursor: string | null | undefined
    do {
      const query = cursor === undefined ? request.query : { ...request.query, cursor }
      const page = (await send(options, 'get', path, { ...request, query })) as Page
      yield* page.data
      cursor = page.next_cursor
    } while (cursor)
  }

  const client = {
    get: call('get'),
    post: call('post'),
    put: call('put'),
    patch: call('patch'),
    delete: call('delete'),
    rows,
  }
  return client as unknown as TypedClient<Paths>
}

interface Page {
  readonly data: readonly unknown[]
  readonly next_cursor: string | null
}
