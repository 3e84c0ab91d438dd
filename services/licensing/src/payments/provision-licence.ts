import type { MessageInitShape } from '@bufbuild/protobuf'
import { timestampDate } from '@bufbuild/protobuf/wkt'
import type { Transaction } from '@licensing/database/connect'
import { isId, newId } from '@licensing/database/ids'
import { append } from '@licensing/events/outbox'
import { invalid, ServiceError } from '@licensing/grpc/errors'
import type { ProvisionLicenceRequest, ProvisionLicenceResponseSchema } from '@licensing/proto/licensing'
import { problemOfText, textLimits } from '@licensing/proto/text'
import type { LicensingDeps } from '../dependencies.ts'
import { insertHistory } from '../licences/history-queries.ts'
import { newLicenceKey } from '../licences/licence-key.ts'
import { licenceMessage } from '../licences/licence-row.ts'
import type { LicenceRow } from '../licences/licence-row.ts'
import type { StandingRow } from '../licences/licence-queries.ts'
import { beginnings } from '../licences/licence.ts'
import { settle } from '../licences/settle-licence.ts'
import { addToCounts } from '../licences/transition-queries.ts'
import { fetchPlan, planUnknown } from '../plans/ask-catalog.ts'
import { lockPlan } from '../plans/plan-queries.ts'
import type { PlanRow } from '../plans/plan-queries.ts'
import {
  findProvision,
  insertPaidLicence,
  insertProvision,
  lockExternalRef,
  lockNewestHeld,
} from './payment-queries.ts'

type Provisioned = LicenceRow & { created: boolean }

/** A payment lands: the customer's licence takes the plan, or a new one is minted. Once for each payment. */
export async function provisionLicence(
  deps: LicensingDeps,
  request: ProvisionLicenceRequest,
): Promise<MessageInitShape<typeof ProvisionLicenceResponseSchema>> {
  const problem = problemOfText(request.externalRef, textLimits.reference)
  if (problem) throw invalid('/external_ref', problem)
  if (!isId('pln', request.planId)) throw planUnknown(request)
  const attempt = () => deps.outbox.transaction((tx) => provision(tx, request))
  let row = await attempt()
  if (row === 'plan_unknown') {
    await fetchPlan(deps, request)
    row = await attempt()
  }
  if (row === 'plan_unknown') throw planUnknown(request)
  return { licence: licenceMessage(row), created: row.created }
}

async function provision(
  tx: Transaction,
  request: ProvisionLicenceRequest,
): Promise<Provisioned | 'plan_unknown'> {
  const { accountId, applicationId, paymentRef, externalRef } = request
  await lockExternalRef(tx, applicationId, externalRef)
  const before = await findProvision(tx, applicationId, paymentRef)
  if (before) return before
  const plan = await lockPlan(tx, request.planId)
  if (!plan || plan.application_id !== applicationId || plan.account_id !== accountId) return 'plan_unknown'
  if (plan.status === 'retired') {
    throw new ServiceError(
      'plan_archived',
      `plan ${plan.id} is retired: restore plan ${plan.id} first, then provision again`,
    )
  }
  const held = await lockNewestHeld(tx, request)
  const row = held ? await changePlan(tx, request, held, plan) : await mint(tx, request, plan)
  const created = held === undefined
  await insertProvision(tx, { applicationId, paymentRef, licenceId: row.id, created })
  return { ...row, created }
}

async function mint(tx: Transaction, request: ProvisionLicenceRequest, plan: PlanRow): Promise<LicenceRow> {
  const row = await insertPaidLicence(tx, {
    id: newId('lic'),
    key: newLicenceKey(),
    accountId: request.accountId,
    applicationId: request.applicationId,
    planId: plan.id,
    snapshotId: plan.snapshot_id,
    externalRef: request.externalRef,
    expiresOn: expiryOf(request),
  })
  await insertHistory(tx, [
    {
      licenceId: row.id,
      type: beginnings.bought.history,
      to: row.status,
      actor: 'processor',
      cause: request.paymentRef,
    },
  ])
  await addToCounts(tx, new Map([[plan.id, 1]]))
  const value = { licenceId: row.id, planId: plan.id, status: row.status }
  await append(tx, {
    accountId: row.account_id,
    applicationId: row.application_id,
    payload: { case: 'licenceCreated', value },
  })
  return row
}

async function changePlan(
  tx: Transaction,
  request: ProvisionLicenceRequest,
  held: StandingRow,
  plan: PlanRow,
): Promise<LicenceRow> {
  const changed = await settle(tx, held, {
    causes: ['paymentLanded'],
    circumstances: { plan: plan.status },
    by: { actor: 'processor', cause: request.paymentRef },
    given: { plan, expiresOn: expiryOf(request) },
  })
  return changed ?? held
}

function expiryOf({ expiresOn }: ProvisionLicenceRequest): Date | null {
  return expiresOn ? timestampDate(expiresOn) : null
}
