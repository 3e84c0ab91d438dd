import { longLockTimeout } from '@licensing/changes/change'
import type { BillingDependencies } from '../dependencies.ts'
import { insertEvents } from '../inbox/inbox-queries.ts'
import type { NewInboxEvent } from '../inbox/inbox-queries.ts'
import { readNewest } from '../inbox/missed-events.ts'
import type { Fact } from '../processor/facts.ts'
import type { PaymentProcessor } from '../processor/stripe/stripe-processor.ts'
import { writeAnswer } from './decide/decision-queries.ts'
import type { AnsweredQuestion } from './decide/decision-queries.ts'
import { lease, listOwners, queues } from '../queues/queue-queries.ts'
import type { DueQuestion, QuestionKind } from '../queues/queue-queries.ts'
import { Shares } from '../queues/queue-rounds.ts'
import { markDue } from '../facts/fact-queries.ts'
import type { NewFact } from '../facts/fact-queries.ts'
import { recordFacts } from '../facts/record-facts.ts'
import { pauseAfter } from '@licensing/process/retry'
import { maxUnanswered, timing } from '../timing.ts'

const maxBatchSize = 32
// Limits one account, so that slow answers for it do not delay others.
const maxPerAccount = 8

interface ProcessorAnswer {
  answered: AnsweredQuestion
  facts: NewFact[]
  /** Events that the processor lists and that have not arrived. */
  events: NewInboxEvent[]
}

/** Asks the processor for data that its events did not contain: many questions at a time, in equal shares by account. */
export class ProcessorAsker {
  readonly #deps: BillingDependencies
  readonly #shares = new Shares(maxBatchSize, maxBatchSize)
  /** The running questions, with the account of each. */
  readonly #running = new Map<Promise<void>, string>()

  constructor(deps: BillingDependencies) {
    this.#deps = deps
  }

  /** @returns how many questions it asked */
  async round(): Promise<number> {
    const free = maxBatchSize - this.#running.size
    if (free <= 0) return 0
    const byAccount = Map.groupBy(this.#running.values(), (accountId) => accountId)
    const busy = [...byAccount]
      .filter(([, own]) => own.length >= maxPerAccount)
      .map(([accountId]) => accountId)
    const { sql } = this.#deps
    const list = (after: string, limit: number) =>
      listOwners(sql, queues.ask, after, limit, { without: busy })
    const { owners } = await this.#shares.next(list, free)
    if (owners.length === 0) return 0
    const each = Math.max(1, Math.min(maxPerAccount, Math.floor(free / owners.length)))
    const questions = await lease(sql, queues.ask, owners, each)
    for (const question of questions) this.#start(question)
    return questions.length
  }

  /** Resolves when all running questions are answered. */
  async stop(): Promise<void> {
    while (this.#running.size > 0) await Promise.all(this.#running.keys())
  }

  #start(question: DueQuestion): void {
    const work = this.#ask(question)
      .then((answer) => this.#record(answer))
      .catch((error: unknown) =>
        this.#deps.log.warn({ err: error, question }, 'answer not recorded: the question is repeated'),
      )
      .finally(() => {
        this.#running.delete(work)
        this.#deps.wake('ask')
      })
    this.#running.set(work, question.account_id)
  }

  async #record({ answered, facts, events }: ProcessorAnswer): Promise<void> {
    const { change, wake } = this.#deps
    await change(async (tx) => {
      await insertEvents(tx, events)
      await recordFacts(tx, facts)
      await writeAnswer(tx, answered)
      await markDue(tx, [answered.purchase_ref])
    }, longLockTimeout)
    if (events.length > 0) wake('record')
    wake('decide')
  }

  async #ask({ purchase_ref, kind, ref, merchant, attempts }: DueQuestion): Promise<ProcessorAnswer> {
    const about = { purchase_ref, kind, ref }
    try {
      if (kind === 'events') {
        const events = await readNewest(this.#deps, merchant)
        return { answered: { ...about, found: true, pause_ms: null }, facts: [], events }
      }
      const found = await factsFor(this.#deps.processor, kind, ref, merchant)
      const facts = (found ?? []).map((fact) => ({ merchant, sourceKey: 'records', fact }))
      return { answered: { ...about, found: found !== undefined, pause_ms: null }, facts, events: [] }
    } catch (error) {
      const level = attempts === maxUnanswered ? 'warn' : 'debug'
      this.#deps.log[level]({ err: error, merchant, ...about, attempts }, 'the processor gave no answer')
      const pause_ms = pauseAfter(timing.retryQuestion, attempts)
      return { answered: { ...about, found: null, pause_ms }, facts: [], events: [] }
    }
  }
}

/** @returns undefined if the processor has no such object */
async function factsFor(
  processor: PaymentProcessor,
  kind: Exclude<QuestionKind, 'events'>,
  ref: string,
  merchant: string,
): Promise<Fact[] | undefined> {
  switch (kind) {
    case 'charge':
      return asList(await processor.findCharge(merchant, ref))
    case 'invoice':
      return processor.findInvoice(merchant, ref)
    case 'subscription':
      return asList(await processor.findSubscription(merchant, ref))
    case 'records': {
      // `ref` starts with the charge's id. The rest depends on the facts that were known when the question was asked.
      const records = await processor.chargeRecords(merchant, ref.slice(0, ref.indexOf(':')))
      return records && [records.charge, ...records.refunds, ...records.disputes]
    }
  }
}

function asList(fact: Fact | undefined): Fact[] | undefined {
  return fact && [fact]
}
