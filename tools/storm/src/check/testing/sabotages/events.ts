import { first, remove, repeat, type Sabotage } from './sabotage.ts'

export const eventSabotages: Sabotage[] = [
  {
    what: 'a gap in the sequence',
    change: ({ events }) => remove(events, ({ sequence }) => sequence === 4),
    rule: 'sequences have no gap and no duplicate',
  },
  {
    what: 'a duplicate in the sequence',
    change: ({ events }) => repeat(events, ({ sequence }) => sequence === 4, { id: 'evt_twin' }),
    rule: 'sequences have no gap and no duplicate',
  },
  {
    what: 'an event recorded twice',
    change: ({ events }) => repeat(events, ({ sequence }) => sequence === 4, { sequence: events.length + 1 }),
    rule: 'sequences have no gap and no duplicate',
  },
  {
    what: 'a change without an event',
    change: ({ events }) => void (first(events, ({ type }) => type === 'licence.reactivated').object = {}),
    rule: 'each change has one event, in order',
  },
  {
    what: 'a change with two events',
    change: ({ events }) =>
      repeat(events, ({ type }) => type === 'licence.reactivated', {
        id: 'evt_x',
        sequence: events.length + 1,
      }),
    rule: 'each change has one event, in order',
  },
  {
    what: 'events of a licence in the wrong order',
    change: ({ events }) => {
      const [one, other] = events.filter(({ object }) => object['licence_id'] === 'lic_1')
      const { sequence } = one!
      one!.sequence = other!.sequence
      other!.sequence = sequence
    },
    rule: 'each change has one event, in order',
  },
  {
    what: 'a payment without its event',
    change: ({ events }) => void (first(events, ({ type }) => type === 'payment.succeeded').type = 'other'),
    rule: 'each payment has its events',
  },
  {
    what: 'a refund without its event',
    change: ({ events }) =>
      void (first(events, ({ type }) => type === 'refund.processed').object['amount'] = 1),
    rule: 'each payment has its events',
  },
  {
    what: 'a cap that was reported as reached twice',
    change: ({ events }) => repeat(events, ({ type }) => type === 'spend_cap.reached', { id: 'evt_x' }),
    rule: 'each payment has its events',
  },
  {
    what: 'a failed provision without an event',
    change: ({ events }) => remove(events, ({ type }) => type === 'payment.provision_failed'),
    rule: 'a failed provision is reported once',
  },
  {
    what: 'a failed provision reported twice',
    change: ({ events }) =>
      repeat(events, ({ type }) => type === 'payment.provision_failed', { id: 'evt_x' }),
    rule: 'a failed provision is reported once',
  },
  {
    what: 'a lost test event',
    change: ({ events }) => remove(events, ({ type }) => type === 'webhook.test'),
    rule: 'test events match the answers',
  },
  {
    what: 'a test event that nobody asked for',
    change: ({ events }) => repeat(events, ({ type }) => type === 'webhook.test', { id: 'evt_x' }),
    rule: 'test events match the answers',
  },
  {
    what: 'a feed that changed after it was read',
    change: ({ feedReads }) => void (feedReads[0]!.events[2]!.id = 'evt_former'),
    rule: 'the feed never changes',
  },
  {
    what: 'a reader of the feed that missed an event',
    change: ({ feedReads }) => void feedReads[0]!.events.splice(2, 1),
    rule: 'the feed never changes',
  },
]

export const deliverySabotages: Sabotage[] = [
  {
    what: 'an event without a delivery',
    change: ({ deliveries }) => void deliveries.pop(),
    rule: 'an event has one delivery per endpoint',
  },
  {
    what: 'an event with two deliveries to one endpoint',
    change: ({ deliveries }) => repeat(deliveries, () => true, { id: 'dlv_twin' }),
    rule: 'an event has one delivery per endpoint',
  },
  {
    what: 'a delivery that never arrived',
    change: ({ arrivals }) => void arrivals.pop(),
    rule: 'a delivery has arrived',
  },
  {
    what: 'a delivery that treats an error as success',
    change: ({ arrivals }) => void (arrivals[0]!.accepted = false),
    rule: 'a delivery has arrived',
  },
  {
    what: 'a delivery that is still waiting',
    change: ({ deliveries }) => void (deliveries[0]!.status = 'pending'),
    rule: 'a delivery has arrived',
  },
  {
    what: 'a delivery that was given up although its endpoint is enabled',
    change: ({ deliveries }) => void (deliveries[0]!.status = 'failed'),
    rule: 'a delivery has arrived',
  },
  {
    what: 'an event that arrived and was never recorded',
    change: ({ arrivals }) => repeat(arrivals, () => true, { eventId: 'evt_none' }),
    rule: 'received events equal the recorded events',
  },
  {
    what: 'an event that arrived with other bytes',
    change: ({ arrivals }) => void (arrivals[0]!.body += ' '),
    rule: 'received events equal the recorded events',
  },
  {
    what: 'a signature of another secret',
    change: ({ arrivals }) => void (arrivals[0]!.signature = `t=1,v1=${'0'.repeat(64)}`),
    rule: 'received events equal the recorded events',
  },
]
