import { repeat, type Sabotage } from './sabotage.ts'

export const deliverySabotages: Sabotage[] = [
  {
    what: 'an event without a delivery',
    change: ({ deliveries }) => void deliveries.pop(),
    rule: 'an event has one delivery an endpoint',
  },
  {
    what: 'an event with two deliveries to one endpoint',
    change: ({ deliveries }) => repeat(deliveries, () => true, { id: 'dlv_twin' }),
    rule: 'an event has one delivery an endpoint',
  },
  {
    what: 'a delivery that never arrived',
    change: ({ arrivals }) => void arrivals.pop(),
    rule: 'a delivery has arrived',
  },
  {
    what: 'a delivery that counts an error for success',
    change: ({ arrivals }) => void (arrivals[0]!.accepted = false),
    rule: 'a delivery has arrived',
  },
  {
    what: 'a delivery that is still waiting',
    change: ({ deliveries }) => void (deliveries[0]!.status = 'pending'),
    rule: 'a delivery has arrived',
  },
  {
    what: 'a delivery given up though its endpoint is in force',
    change: ({ deliveries }) => void (deliveries[0]!.status = 'failed'),
    rule: 'a delivery has arrived',
  },
  {
    what: 'an event that arrived and was never recorded',
    change: ({ arrivals }) => repeat(arrivals, () => true, { eventId: 'evt_none' }),
    rule: 'what arrives is what was recorded',
  },
  {
    what: 'an event that arrived with other bytes',
    change: ({ arrivals }) => void (arrivals[0]!.body += ' '),
    rule: 'what arrives is what was recorded',
  },
  {
    what: 'a signature of another secret',
    change: ({ arrivals }) => void (arrivals[0]!.signature = `t=1,v1=${'0'.repeat(64)}`),
    rule: 'what arrives is what was recorded',
  },
]
