import { timestampDate } from '@bufbuild/protobuf/wkt'
import type { Transaction } from '@licensing/database/connect'
import { checkReference } from '@licensing/grpc/checks'
import { invalid, ServiceError } from '@licensing/grpc/errors'
import {
  ReportSaleFactResponse_Outcome as Outcome,
  ReportSaleFactResponseSchema,
} from '@licensing/proto/billing'
import type { ReportSaleFactRequest } from '@licensing/proto/billing'
import { checkMoney, checkOccurredAt } from '../checks.ts'
import type { BillingDependencies, Handler } from '../dependencies.ts'
import { leaseWaiting, lockPurchases } from '../effects/effect-queries.ts'
import { sendNow } from '../effects/send-effects.ts'
import { decideAll } from '../purchases/decide/decide-purchases.ts'
import { findSale } from '../sale-events/sale-event-queries.ts'
import type { SaleRow } from '../sale-events/sale-event-queries.ts'
import { findSaleFacts, insertSaleFact, lockSaleName } from '../sale-events/sale-fact-queries.ts'
import type { NewSaleFact, SaleFactRow } from '../sale-events/sale-fact-queries.ts'
import { inOrder, paymentsOfSale } from '../sale-events/sale-facts.ts'

/** How many facts may wait for a sale, and how many a sale may have. A decision reads them all. */
const maxWaiting = 100
const maxFacts = 500

/**
 * Records a fact about a sale of another shop. It is recorded together with all that follows from it, then its effects are
 * sent at once, so that the answer has the status of the licence after it. If licensing is not available, the effects are sent
 * in the background.
 */
export const reportSaleFact: Handler<'reportSaleFact'> = async (deps, request) => {
  checkReference('/sale_id', request.saleId)
  const fact = readFact(request)
  const { outcome, sale, isSending } = await deps.change((tx) => recordFact(deps, tx, request, fact))
  if (isSending) await sendNow(deps, sale!.id)
  deps.wake('decide')
  const response = { outcome, ...(await answerOf(deps, request, outcome, sale)) }
  // The answer is recorded separately, because a repetition finds the same fact.
  await deps.change(async () => {}, {
    answer: { schema: ReportSaleFactResponseSchema, toMessage: () => response },
  })
  return response
}

async function answerOf(
  { licences }: BillingDependencies,
  { accountId }: ReportSaleFactRequest,
  outcome: Outcome,
  sale: SaleRow | undefined,
): Promise<{ licenceId?: string; licenceStatus?: string }> {
  if (outcome === Outcome.WAITING) return {}
  const licenceId = sale!.licence_id!
  const { licence } = await licences.getLicence({ accountId, licenceId })
  return { licenceId, licenceStatus: licence!.status }
}

type ReportedFact = Omit<NewSaleFact, 'is_waiting'>

/** @throws ServiceError `validation_failed` */
function readFact(request: ReportSaleFactRequest): ReportedFact {
  const { fact } = request
  const common = {
    account_id: request.accountId,
    application_id: request.applicationId,
    sale_id: request.saleId,
    body_hash: Buffer.from(request.bodyHash),
    occurred_at: checkOccurredAt(request.occurredAt),
    fact_id: '',
    amount: null,
    currency: null,
    renewal_id: null,
    ends_on: null,
  }
  switch (fact.case) {
    case 'refund': {
      const { id, amount, kind, renewalId = null } = fact.value
      checkReference('/refund_id', id)
      if (renewalId !== null) checkReference('/renewal_id', renewalId)
      if (kind !== 'refund' && kind !== 'chargeback') throw invalid('/kind', 'must be refund or chargeback')
      if (amount < 1n) throw invalid('/amount', 'must be at least 1')
      return { ...common, kind, fact_id: id, amount, renewal_id: renewalId }
    }
    case 'renewal': {
      const { id, amount, currency, expiresOn } = fact.value
      checkReference('/renewal_id', id)
      checkMoney(amount, currency)
      if (!expiresOn) throw invalid('/expires_on', 'is required')
      return { ...common, kind: 'renewal', fact_id: id, amount, currency, ends_on: timestampDate(expiresOn) }
    }
    case 'failure':
      checkReference('/failure_id', fact.value.id)
      return { ...common, kind: 'failure', fact_id: fact.value.id }
    case 'cancellation': {
      const { endsOn } = fact.value
      return { ...common, kind: 'cancellation', ends_on: endsOn ? timestampDate(endsOn) : null }
    }
    default:
      throw invalid('/fact', 'is required')
  }
}

interface Recorded {
  outcome: Outcome
  sale: SaleRow | undefined
  /** Whether the caller has to send effects of the sale. */
  isSending: boolean
}

async function recordFact(
  deps: BillingDependencies,
  tx: Transaction,
  request: ReportSaleFactRequest,
  fact: ReportedFact,
): Promise<Recorded> {
  await lockSaleName(tx, request)
  const id = (await findSale(tx, request))?.id
  // A sale is provisioned under the lock of its purchase.
  if (id !== undefined) await lockPurchases(tx, [id])
  const sale = await findSale(tx, request)
  const facts = await findSaleFacts(tx, request)
  const known = facts.find((other) => isSame(fact, other))
  if (known && !known.body_hash.equals(fact.body_hash)) throw reportedBefore(fact)
  const isProvisioned = sale?.status === 'provisioned'
  if (!known) {
    checkLeft(fact, sale, facts)
    if (facts.length >= (isProvisioned ? maxFacts : maxWaiting)) throw tooMany(fact, isProvisioned)
    await insertSaleFact(tx, { ...fact, is_waiting: !isProvisioned })
    if (isProvisioned) await decideAll(deps, tx, [{ purchase_ref: sale.id, ordered_at: sale.occurred_at }])
  }
  const isRefundOfUnknown =
    fact.renewal_id !== null &&
    !facts.some((other) => other.kind === 'renewal' && other.fact_id === fact.renewal_id)
  const isWaiting = !isProvisioned || isRefundOfUnknown
  return {
    outcome: isWaiting ? Outcome.WAITING : known ? Outcome.KNOWN : Outcome.NEW,
    sale,
    isSending: isProvisioned && (await leaseWaiting(tx, sale.id)),
  }
}

/** Whether both have the same id: those of refunds and chargebacks are the same set. */
function isSame(one: ReportedFact, other: SaleFactRow): boolean {
  const setOf = ({ kind }: Pick<SaleFactRow, 'kind'>) => (kind === 'chargeback' ? 'refund' : kind)
  return one.fact_id === other.fact_id && setOf(one) === setOf(other)
}

/** A refund is at most what earlier refunds left of its payment, a chargeback at most the payment, if that is known. */
function checkLeft(fact: ReportedFact, sale: SaleRow | undefined, facts: SaleFactRow[]): void {
  if (fact.kind !== 'refund' && fact.kind !== 'chargeback') return
  const payment = paymentsOfSale(sale, inOrder(facts, sale)).get(fact.renewal_id)
  if (!payment) return
  const max = fact.kind === 'refund' ? payment.left : payment.amount
  if (fact.amount! <= max) return
  throw invalid(
    '/amount',
    fact.kind === 'refund'
      ? `must be at most ${max}: earlier refunds left that of the payment of ${payment.amount}`
      : `must be at most the payment of ${max}`,
  )
}

function reportedBefore({ kind, fact_id: id, sale_id: sale }: ReportedFact): ServiceError {
  return new ServiceError(
    'idempotency_mismatch',
    kind === 'cancellation'
      ? `the cancellation of sale ${sale} was reported before with another body`
      : `${kind} ${id} of sale ${sale} was reported before with another body: send it unchanged, or use another id`,
  )
}

function tooMany({ sale_id: sale }: ReportedFact, isProvisioned: boolean): ServiceError {
  const limit = isProvisioned ? maxFacts : maxWaiting
  return new ServiceError(
    'quota_exceeded',
    isProvisioned
      ? `sale ${sale} has ${limit} facts, the most that a sale may have: report further payments as a new sale, and change the licence for other facts`
      : `${limit} facts wait for sale ${sale}: report the sale first, or remove why it cannot be provisioned`,
    { members: { limit } },
  )
}
