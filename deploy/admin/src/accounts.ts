import { timestampDate } from '@bufbuild/protobuf/wkt'
import { CatalogService } from '@licensing/proto/catalog'
import type { Account, ApiKey } from '@licensing/proto/catalog'
import { CatalogOperationsService } from '@licensing/proto/catalog-operations'
import { closedSets } from '@licensing/proto/closed-sets'
import { UsageError, wholeNumberOf } from './command.ts'
import type { Command } from './command.ts'

export const createAccount: Command = {
  synopsis: '--name NAME [--alert-email ADDRESS]',
  summary: 'creates an account with an application and an API key with all scopes; prints the key once',
  options: { name: { required: true }, 'alert-email': { required: false } },
  async run({ callsOf, fee }, { name, 'alert-email': alertEmail }) {
    const request = { name: name!, ...(alertEmail !== undefined && { alertEmail }), ...fee }
    const made = await callsOf('catalog', CatalogOperationsService).createAccount(request)
    return [{ account_id: made.accountId, app_id: made.applicationId, key: made.key }]
  },
}

export const setFee: Command = {
  synopsis: '--account ACCOUNT_ID [--bps BASIS_POINTS] [--fixed-minor MINOR_UNITS]',
  summary: 'sets the transaction fee of an account for future charges',
  options: { account: { required: true }, bps: { required: false }, 'fixed-minor': { required: false } },
  async run({ callsOf }, { account, bps, 'fixed-minor': fixedMinor }) {
    if (bps === undefined && fixedMinor === undefined)
      throw new UsageError('use --bps, --fixed-minor or both')
    const changed = await callsOf('catalog', CatalogOperationsService).setFee({
      accountId: account!,
      ...(bps !== undefined && { feeBps: wholeNumberOf('bps', bps, 10_000) }),
      ...(fixedMinor !== undefined && {
        feeFixedMinor: BigInt(wholeNumberOf('fixed-minor', fixedMinor, Number.MAX_SAFE_INTEGER)),
      }),
    })
    return [{ account_id: account, fee_bps: changed.feeBps, fee_fixed_minor: Number(changed.feeFixedMinor) }]
  },
}

export const list: Command = {
  synopsis: '',
  summary: 'lists accounts with their applications and keys, one JSON line per account',
  options: {},
  async run({ callsOf }) {
    const catalog = callsOf('catalog', CatalogService)
    const operations = callsOf('catalog', CatalogOperationsService)
    const lines: object[] = []
    for (let afterId = ''; ;) {
      const { accounts } = await operations.listAccounts({ afterId })
      for (const account of accounts) {
        const request = { accountId: account.id, limit: 200 }
        const applications = await allOf(async (beforeId) => {
          const { applications: page, hasMore } = await catalog.listApplications({ ...request, beforeId })
          return { page, hasMore }
        })
        const keys = await allOf(async (beforeId) => {
          const { apiKeys: page, hasMore } = await catalog.listApiKeys({ ...request, beforeId })
          return { page, hasMore }
        })
        lines.push({
          ...describedAccount(account),
          apps: applications.map(({ id, name }) => ({ app_id: id, name })),
          keys: keys.map(describedKey),
        })
      }
      if (accounts.length === 0) return lines
      afterId = accounts.at(-1)!.id
    }
  },
}

async function allOf<Row extends { id: string }>(
  read: (beforeId: string) => Promise<{ page: Row[]; hasMore: boolean }>,
): Promise<Row[]> {
  const all: Row[] = []
  for (;;) {
    const { page, hasMore } = await read(all.at(-1)?.id ?? '')
    all.push(...page)
    if (!hasMore) return all
  }
}

function describedAccount({ id, name, confirmedAlertEmail, feeBps, feeFixedMinor }: Account): object {
  return {
    account_id: id,
    name,
    alert_email: confirmedAlertEmail ?? null,
    fee_bps: feeBps,
    fee_fixed_minor: Number(feeFixedMinor),
  }
}

function describedKey({ id, name, scopes, applicationId, lastFour, lastUsedAt, revokedAt }: ApiKey): object {
  return {
    key_id: id,
    name,
    scopes,
    app_id: applicationId ?? null,
    last_four: lastFour,
    last_used_at: lastUsedAt ? timestampDate(lastUsedAt).toISOString() : null,
    revoked_at: revokedAt ? timestampDate(revokedAt).toISOString() : null,
  }
}

export const createKey: Command = {
  synopsis: `--account ACCOUNT_ID --name NAME --scopes ${closedSets.scope.join(',')} [--app APP_ID]`,
  summary: 'creates an API key, with --app for one application only; prints the key once',
  options: {
    account: { required: true },
    name: { required: true },
    scopes: { required: true },
    app: { required: false },
  },
  async run({ callsOf }, { account, name, scopes, app }) {
    const { apiKey, key } = await callsOf('catalog', CatalogService).createApiKey({
      accountId: account!,
      name: name!,
      scopes: scopes!.split(',').map((scope) => scope.trim()),
      ...(app !== undefined && { applicationId: app }),
    })
    return [{ key_id: apiKey!.id, key }]
  },
}

export const revoke: Command = {
  synopsis: 'KEY_ID',
  summary: 'revokes an API key; it is refused within 2 seconds',
  options: {},
  positionals: ['KEY_ID'],
  async run({ callsOf }, { KEY_ID: keyId }) {
    await callsOf('catalog', CatalogOperationsService).revokeAnyApiKey({ keyId: keyId! })
    return [{ key_id: keyId, revoked: true }]
  },
}
