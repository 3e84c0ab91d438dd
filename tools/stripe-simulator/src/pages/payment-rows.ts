import { amountText } from '@licensing/money/amounts'
import { isInquiry, isOpen } from '../flows/dispute-charge.ts'
import type { Dispute, Refund } from '../objects/wire.ts'
import { html } from './html.ts'
import type { Html } from './html.ts'
import { act, chip } from './layout.ts'

export function refundRow(refund: Refund): Html {
  const named = { refund: refund.id }
  const fails = act('refund-status', 'It fails', { ...named, status: 'failed' })
  return html`<div class="sub">
    Refund
    <span class="money">${amountText(refund.amount, refund.currency)}</span> ${chip(refund.status ?? '')}
    <code>${refund.id}</code>
    ${refund.status === 'pending' && act('refund-status', 'It succeeds', { ...named, status: 'succeeded' })}
    ${(refund.status === 'pending' || refund.status === 'succeeded') && fails}
  </div>`
}

export function disputeRow(dispute: Dispute): Html {
  const named = { dispute: dispute.id }
  const close = (outcome: string, label: string): Html => act('close-dispute', label, { ...named, outcome })
  const next = isInquiry(dispute)
    ? html`${act('escalate-dispute', 'Becomes a chargeback', named)}
      ${close('warning_closed', 'Close inquiry')}`
    : html`${close('won', 'Vendor wins')} ${close('lost', 'Vendor loses')}`
  return html`<div class="sub">
    ${isInquiry(dispute) ? 'Inquiry' : 'Chargeback'}
    <span class="money">${amountText(dispute.amount, dispute.currency)}</span> ${chip(dispute.status)}
    <code>${dispute.id}</code> ${isOpen(dispute) && next}
  </div>`
}
