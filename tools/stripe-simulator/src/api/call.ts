import { findOwned } from '../flows/find.ts'
import type { Params } from '../http/params.ts'
import { invalidRequest } from '../http/stripe-error.ts'
import type { List } from '../objects/wire.ts'
import type { Collection, Owner } from '../world/collection.ts'
import type { World } from '../world/world.ts'
import { noParameters } from './parameters.ts'

/** One authenticated API request. */
export type Call = {
  world: World
  /** The account in `Stripe-Account`; null for the platform. */
  account: Owner
  /** The id in the path; empty if the path has none. */
  id: string
  params: Params
}

export type Handler = (call: Call) => object

export type Route = readonly [method: 'GET' | 'POST' | 'DELETE', path: string, handler: Handler]

type CollectionName = {
  [Name in keyof World]: World[Name] extends Collection<infer _> ? Name : never
}[keyof World]
type ObjectIn<Name extends CollectionName> = World[Name] extends Collection<infer Found> ? Found : never

/** `GET` of one object by its id. */
export function readOne(name: CollectionName, kind: string, known = noParameters): Handler {
  return ({ world, account, id, params }) => {
    params.accept(known)
    return findOwned<{ id: string; created: number }>(world[name], kind, account, id)
  }
}

/** `GET` of a list. Each parameter in `filters` selects the objects of which the function returns its value. */
export function readList<Name extends CollectionName>(
  url: string,
  name: Name,
  known: Record<string, boolean>,
  filters: Record<string, (object: ObjectIn<Name>) => unknown> = {},
): Handler {
  return ({ world, account, params }) => {
    params.accept(known)
    const wanted = Object.entries(filters).flatMap(([parameter, read]) => {
      const value = params.string(parameter)
      return value === undefined ? [] : [{ value, read }]
    })
    const collection = world[name] as unknown as Collection<ObjectIn<Name>>
    const found = collection.list(account, (object) =>
      wanted.every(({ value, read }) => read(object) === value),
    )
    return page(url, params, found)
  }
}

/** One page of a list that is sorted newest first, with Stripe's cursor and `created` filter. */
export function page<T extends { id: string; created?: number }>(
  url: string,
  params: Params,
  everything: T[],
): List<T> {
  const all = everything.filter(createdFilter(params))
  const limit = params.integer('limit', 1) ?? 10
  if (limit > 100) {
    throw invalidRequest('Invalid limit: must be at most 100', {
      code: 'parameter_invalid_integer',
      param: 'limit',
    })
  }
  const after = params.string('starting_after')
  const start = after === undefined ? 0 : indexOf(all, after) + 1
  return {
    object: 'list',
    data: all.slice(start, start + limit),
    has_more: all.length > start + limit,
    url,
  }
}

function createdFilter(params: Params): (object: { created?: number }) => boolean {
  if (!params.has('created')) return () => true
  const range = params.object('created')?.only('gt', 'gte', 'lt', 'lte')
  const [gt, gte] = [range?.integer('gt'), range?.integer('gte')]
  const [lt, lte] = [range?.integer('lt'), range?.integer('lte')]
  return ({ created = 0 }) =>
    (gt === undefined || created > gt) &&
    (gte === undefined || created >= gte) &&
    (lt === undefined || created < lt) &&
    (lte === undefined || created <= lte)
}

function indexOf(all: { id: string }[], id: string): number {
  const index = all.findIndex((object) => object.id === id)
  if (index >= 0) return index
  throw invalidRequest(`No such object: '${id}'`, { code: 'resource_missing', param: 'starting_after' })
}
