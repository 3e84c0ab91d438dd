import type { Quota } from '@licensing/proto/closed-sets'
import { closedSets } from '@licensing/proto/closed-sets'
import { quotas } from '@licensing/proto/quotas'
import type { Callee } from '@licensing/proto/callers'
import { CatalogService } from '@licensing/proto/catalog'
import { QuotaService } from '@licensing/proto/quota-service'
import { UsageError, wholeNumberOf } from './command.ts'
import type { Command } from './command.ts'

const optionOf = (quota: Quota) => quota.replaceAll('_', '-')

const owners: Record<Quota, readonly Callee[]> = {
  applications: ['catalog'],
  api_keys: ['catalog'],
  members: ['catalog'],
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
    'sets quotas of an account: applications, active API keys, members, plans and entitlement definitions per application, enabled webhook endpoints per application, activations per licence, hosts and deactivations remembered per licence, new trials per application and UTC day, bytes of answers kept for Idempotency-Key by each service; existing resources stay',
  options: {
    account: { required: true },
    ...Object.fromEntries(options.map((option) => [option, { required: false }])),
  },
  async run({ callsOf }, given) {
    const wanted = closedSets.quota.flatMap((quota) => {
      const text = given[optionOf(quota)]
      return text === undefined
        ? []
        : [{ quota, max: wholeNumberOf(optionOf(quota), text, quotas[quota].ceiling) }]
    })
    if (wanted.length === 0) throw new UsageError(`give at least one of --${options.join(', --')}`)
    const accountId = given.account!
    await callsOf('catalog', CatalogService).getAccount({ accountId })
    // All addresses are checked first: if one is missing, nothing is changed. The service that checks a quota stores it, so
    // that the next transaction of each replica sees it.
    const changes = wanted.flatMap(({ quota, max }) =>
      owners[quota].map((owner) => ({ calls: callsOf(owner, QuotaService), quota, max: BigInt(max) })),
    )
    for (const { calls, quota, max } of changes) await calls.setQuota({ accountId, quota, max })
    return [{ account_id: accountId, ...Object.fromEntries(wanted.map(({ quota, max }) => [quota, max])) }]
  },
}
