import type { MessageInitShape } from '@bufbuild/protobuf'
import type { AccountSchema, GetAccountRequest } from '@licensing/proto/catalog'
import type { CatalogDependencies } from '../dependencies.ts'
import { notFound } from '../refusals.ts'
import { findAccount } from './account-queries.ts'
import { toAccount } from './account.ts'

export async function getAccount(
  { sql }: CatalogDependencies,
  request: GetAccountRequest,
): Promise<MessageInitShape<typeof AccountSchema>> {
  const row = await findAccount(sql, request.accountId)
  if (!row) throw notFound('account', request.accountId)
  return toAccount(row)
}
