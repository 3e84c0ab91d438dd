import type { Sql, Transaction } from '@licensing/database/connect'
import { jsonRows } from '../json-rows.ts'
import type { QuestionKind } from './history.ts'

export interface DueQuestion {
  purchase_ref: string
  kind: QuestionKind
  ref: string
  account_id: string
  merchant: string
  attempts: number
}

/** Accounts with questions to ask, by id, without those that have enough under way. */
export async function listAskingAccounts(
  sql: Sql,
  after: string,
  most: number,
  without: string[],
): Promise<string[]> {
  const rows = await sql<{ account_id: string }[]>`
    with recursive waiting as (
      (select account_id from processor_questions where next_at is not null and account_id > ${after}
        order by account_id limit 1)
      union all
      select (
        select q.account_id from processor_questions q
        where q.next_at is not null and q.account_id > w.account_id order by q.account_id limit 1
      )
      from waiting w where w.account_id is not null
    )
    select account_id from waiting w where account_id <> all(${without}) and exists (
      select 1 from processor_questions q where q.account_id = w.account_id and q.next_at <= clock_timestamp()
    ) limit ${most}`
  return rows.map((row) => row.account_id)
}

/** Takes questions of each account for a while: where the asker dies, another asks when that is over. */
export async function claimQuestions(
  sql: Sql,
  accountIds: string[],
  each: number,
  claimMs: number,
): Promise<DueQuestion[]> {
  return sql<DueQuestion[]>`
    update processor_questions q set attempts = q.attempts + 1,
      next_at = clock_timestamp() + ${claimMs}::int * interval '1 millisecond'
    where (purchase_ref, kind, ref) in (
      select c.purchase_ref, c.kind, c.ref from unnest(${accountIds}::text[]) as a (account_id) cross join lateral (
        select purchase_ref, kind, ref from processor_questions
        where account_id = a.account_id and next_at <= clock_timestamp()
        order by next_at limit ${each} for update skip locked
      ) c
    )
    returning purchase_ref, kind, ref, account_id, merchant, attempts`
}

export interface AnsweredQuestion extends Pick<DueQuestion, 'purchase_ref' | 'kind' | 'ref'> {
  /** Undefined: there was no answer. */
  found: boolean | undefined
  /** When to ask again; null: it was answered. */
  delayMs: number | null
}

export async function writeAnswers(tx: Transaction, answers: AnsweredQuestion[]): Promise<void> {
  await tx`
    update processor_questions q set found = coalesce(a.found, q.found),
      next_at = clock_timestamp() + a."delayMs" * interval '1 millisecond',
      answered_at = case when a.found is not null then clock_timestamp() end
    from jsonb_to_recordset(${jsonRows(answers.map(({ purchase_ref, kind, ref, found, delayMs }) => ({ purchase_ref, kind, ref, found, delayMs })))}::text::jsonb) as a (purchase_ref text, kind text, ref text,
      found boolean, "delayMs" float8)
    where q.purchase_ref = a.purchase_ref and q.kind = a.kind and q.ref = a.ref`
}
