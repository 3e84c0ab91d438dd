import type { Deliveries } from '../delivery/deliveries.ts'
import type { SimulatedEvent } from '../objects/event.ts'
import { html } from './html.ts'
import type { Html } from './html.ts'
import { act, chip, moment } from './layout.ts'

export function eventTools(deliveries: Deliveries): Html {
  const held = deliveries.held().length
  const holding = deliveries.rules.list().some(({ action }) => action === 'hold')
  return html`<div class="tools">
    ${holding ? chip('holding') : act('hold', 'Hold the next events', {})}
    ${(holding || held > 0) && act('release', `Release ${held} in order`, {})}
    ${held > 1 && act('release', `Release ${held} reversed`, { order: 'reversed' })}
  </div>`
}

export function eventRow(deliveries: Deliveries, event: SimulatedEvent): Html {
  const delivery = deliveries.find(event.id)
  const tries = delivery?.attempts.length ?? 0
  const last = delivery?.attempts.at(-1)
  return html`<div class="row">
    <div>${event.type}<br /><code>${event.id}</code></div>
    <div class="small">${moment(event.created)}<br />${event.account ?? 'platform'}</div>
    <div class="acts">
      ${last && html`<span class="small">sent ${tries} × · ${last.status ?? last.error}</span>`}
      ${chip(delivery?.state ?? 'skipped')} ${act('redeliver', 'Send again', { event: event.id })}
    </div>
  </div>`
}
