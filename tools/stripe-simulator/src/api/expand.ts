import { invalidRequest } from '../http/stripe-error.ts'
import { listOf } from '../objects/wire.ts'
import type { Owner } from '../world/collection.ts'
import type { World } from '../world/world.ts'

type Tree = Record<string, unknown>

/** A copy of the answer in which the references in `paths` are replaced by their objects, at most four levels deep. */
export function expand(world: World, account: Owner, answer: object, paths: string[]): object {
  if (paths.length === 0) return answer
  const copy = structuredClone(answer)
  for (const path of paths) {
    const steps = path.split('.')
    if (steps.length > 4) throw cannotExpand(path)
    follow(world, account, copy as Tree, steps, path)
  }
  return copy
}

function follow(world: World, account: Owner, object: Tree, steps: string[], path: string): void {
  const [step, ...rest] = steps
  if (step === undefined) return
  const value = object[step] ?? included(world, account, object, step)
  if (value === undefined && !(step in object)) throw cannotExpand(path)
  const found = typeof value === 'string' ? referenced(world, account, value) : value
  if (found === undefined) throw cannotExpand(path)
  if (found === null) return
  object[step] = found
  for (const next of Array.isArray(found) ? found : [found]) {
    follow(world, account, next as Tree, rest, path)
  }
}

function referenced(world: World, account: Owner, id: string): object | undefined {
  const collections = [
    world.paymentIntents,
    world.charges,
    world.invoices,
    world.subscriptions,
    world.refunds,
    world.sessions,
    world.disputes,
    world.applicationFees,
  ]
  for (const collection of collections) {
    const object = collection.find(account, id)
    if (object !== undefined) return structuredClone(object)
  }
  return undefined
}

/** A list that Stripe includes in an object only if it is expanded. */
function included(world: World, account: Owner, object: Tree, step: string): object | undefined {
  const id = String(object['id'])
  switch (`${String(object['object'])}.${step}`) {
    case 'invoice.payments':
      return listOf(
        `/v1/invoice_payments?invoice=${id}`,
        structuredClone(world.invoicePayments.list(account, (payment) => payment.invoice === id)),
      )
    default:
      return undefined
  }
}

function cannotExpand(path: string): Error {
  return invalidRequest(`This property cannot be expanded (${path}).`, { param: 'expand' })
}
