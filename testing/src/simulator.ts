import { callJson } from './api.ts'

/** Actions of customers, vendors and banks at the simulated payment processor. No money moves. */
export interface Simulator {
  /** Its address, with a page for people. */
  readonly url: string
  /** The customer pays. `session`: the `url` of a checkout session. */
  pay(session: string): Promise<void>
  /** The payment is declined; the checkout stays open. */
  fail(session: string): Promise<void>
  /**
   * The vendor refunds the whole charge, or `amount` in minor units. `charge`: a payment's `charge_ref`, or the `url` of a checkout
   * session, which stands for its latest charge.
   */
  refund(charge: string, options?: { amount?: number }): Promise<void>
  /** The customer disputes the charge: a chargeback, or an inquiry. */
  dispute(charge: string, options?: { kind?: 'chargeback' | 'inquiry' }): Promise<void>
  /**
   * The next period of a subscription is paid. `session`: the `url` of the checkout that started the subscription.
   */
  renew(session: string): Promise<void>
}

export function openSimulator(url: string): Simulator {
  const act = async (action: string, body: object): Promise<void> => {
    await callJson('POST', `${url}/_sim/${action}`, { body })
  }
  return {
    url,
    pay: (session) => act('pay', { session: idOf(session) }),
    fail: (session) => act('fail', { session: idOf(session) }),
    refund: async (charge, { amount } = {}) =>
      act('refund', { charge: await chargeOf(url, idOf(charge)), ...(amount !== undefined && { amount }) }),
    dispute: async (charge, { kind = 'chargeback' } = {}) =>
      act('dispute', { charge: await chargeOf(url, idOf(charge)), kind }),
    renew: async (session) => {
      const { subscription } = (await findSession(url, idOf(session))).session ?? {}
      if (!subscription) throw new Error(`${session} is no paid checkout of a subscription`)
      await act('renew', { subscription })
    },
  }
}

/** The processor's id: the last part of the checkout URL. */
const idOf = (text: string) => text.split('/').at(-1)!

interface State {
  collections: {
    sessions: { object: Session }[]
    charges: { object: { id: string; customer: string | null; created: number; paid: boolean } }[]
  }
}

interface Session {
  id: string
  customer: string | null
  subscription: string | null
}

async function findSession(url: string, id: string) {
  const { collections } = await callJson<State>('GET', `${url}/_sim/state`)
  const session = collections.sessions.find(({ object }) => object.id === id)?.object
  return { session, charges: collections.charges.map(({ object }) => object) }
}

/** The latest charge. The charges of a subscription belong to its invoices, and its session names none of them. */
async function chargeOf(url: string, id: string): Promise<string> {
  const { session, charges } = await findSession(url, id)
  if (!session?.subscription) return id
  const own = charges.filter(({ customer, paid }) => paid && customer === session.customer)
  return own.toSorted((a, b) => a.created - b.created).at(-1)?.id ?? id
}
