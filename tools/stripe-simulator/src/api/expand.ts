import { listOf } from '../objects/wire.ts'
import { list, type Owner, type World } from '../world.ts'
import { invalidRequest } from './errors.ts'

type Tree = Record<string, unknown>

/** A copy of the answer in which the references in `paths` are replaced by their objects, at most four levels deep. */
export function expand(world: World, account: Owner, answer: object, paths: string[]): object {
  const copy = structuredClone(answer)
  for (const path of paths) {
    const steps = path.split('.')
    if (steps.length > 4 || !follow(world, account, copy as Tree, steps)) {
      throw invalidRequest(`This property cannot be expanded (${path}).`, { param: 'expand' })
    }
  }
  return copy
}

/** Replaces the references on the way. Returns false if there is no such member, or it refers to nothing. */
function follow(world: World, account: Owner, object: Tree, [step, ...rest]: string[]): boolean {
  if (step === undefined) return true
  const value = object[step] ?? paymentsOf(world, account, object, step)
  if (value === undefined) return false
  const found = typeof value === 'string' ? referenced(world, account, value) : value
  if (found === undefined) return false
  object[step] = found
  return [found].flat().every((each) => each === null || follow(world, account, each as Tree, rest))
}

function referenced(world: World, account: Owner, id: string): object | undefined {
  if (world.owners.get(id) !== account) return undefined
  const { paymentIntents, charges, invoices, subscriptions } = world
  const found = [paymentIntents, charges, invoices, subscriptions].find((objects) => objects.has(id))
  return structuredClone(found?.get(id))
}

/** The list that Stripe includes in an invoice only if it is expanded. */
function paymentsOf(world: World, account: Owner, { object, id }: Tree, step: string): object | undefined {
  if (object !== 'invoice' || step !== 'payments') return undefined
  const payments = list(world, account, world.invoicePayments, ({ invoice }) => invoice === id)
  return listOf(`/v1/invoice_payments?invoice=${String(id)}`, structuredClone(payments))
}
