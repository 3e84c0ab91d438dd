import type { Sql } from '@licensing/database/connect'
import type { Quota } from '@licensing/proto/closed-sets'
import { closedSets } from '@licensing/proto/closed-sets'
import { quotas } from '@licensing/proto/quotas'
import { setQuota as saveQuota } from '@licensing/quotas/quota-queries'
import { findAccount } from '../accounts/account-queries.ts'
import type { Command, CountingService } from './command.ts'
import { Refusal, UsageError, wholeNumberOf } from './command.ts'

const optionOf = (quota: Quota) => quota.replaceAll('_', '-')

type Owner = 'catalog' | CountingService

const owners: Record<Quota, readonly Owner[]> = {
  applications: ['catalog'],
  api_keys: ['catalog'],
  plans: ['catalog'],
  entitlement_defs: ['catalog'],
  webhook_endpoints: ['notifier'],
  activations: ['licensing'],
  hosts: ['licensing'],
  deactivations: ['licensing'],
  trials_per_day: ['licensing'],
  // Each service stores the answers of its own calls.
  idempotency_bytes: ['catalog', 'licensing', 'billing', 'notifier'],
}

const options = closedSets.quota.map(optionOf)

/** `licensing-admin set-quota`: changes quotas of an account. */
export const setQuota: Command = {
  synopsis: `--account ACCOUNT_ID ${options.map((option) => `[--${option} N]`).join(' ')}`,
  summary:
    'sets quotas of an account: applications, active API keys, plans and entitlement definitions per application, enabled webhook endpoints per application, activations per licence, hosts and deactivations remembered per licence, new trials per application and UTC day, bytes of answers kept for Idempotency-Key by each service; existing resources stay',
  options: {
    account: { required: true },
    ...Object.fromEntries(options.map((option) => [option, { required: false }])),
  },
  async run({ sql, quotas: quotasOf }, given) {
    const wanted = closedSets.quota.flatMap((quota) => {
      const text = given[optionOf(quota)]
      return text === undefined
        ? []
        : [{ quota, max: wholeNumberOf(optionOf(quota), text, quotas[quota].ceiling) }]
    })
    if (wanted.length === 0) throw new UsageError(`give at least one of --${options.join(', --')}`)
    const accountId = given.account!
    if (!(await findAccount(sql, accountId))) throw new Refusal(`there is no account ${accountId}`)
    // All addresses are checked first: if one is missing, nothing is changed.
    const changes = wanted.flatMap(({ quota, max }) =>
      owners[quota].map((owner) => changeOf(sql, quotasOf, owner, { accountId, quota, max })),
    )
    for (const change of changes) await change()
    return [
      JSON.stringify({
        account_id: accountId,
        ...Object.fromEntries(wanted.map(({ quota, max }) => [quota, max])),
      }),
    ]
  },
}

type QuotasOf = Parameters<Command['run']>[0]['quotas']

/** The service that checks a quota stores it, so that the next transaction of each replica sees it. */
function changeOf(
  sql: Sql,
  quotasOf: QuotasOf,
  owner: Owner,
  { accountId, quota, max }: { accountId: string; quota: Quota; max: number },
): () => Promise<unknown> {
  if (owner === 'catalog') return () => saveQuota(sql, accountId, quota, max)
  const calls = quotasOf(owner)
  return () => calls.setQuota({ accountId, quota, max: BigInt(max) })
}
