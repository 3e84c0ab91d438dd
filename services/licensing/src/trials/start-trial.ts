import type { MessageInitShape } from '@bufbuild/protobuf'
import { LostRace } from '@licensing/changes/change'
import type { Transaction } from '@licensing/database/connect'
import { newId } from '@licensing/database/ids'
import { append } from '@licensing/events/outbox'
import { ServiceError } from '@licensing/grpc/errors'
import { createKeyedQueue } from '@licensing/grpc/keyed-queue'
import type { StartTrialRequest, StartTrialResponseSchema } from '@licensing/proto/products'
import { isStorable } from '@licensing/proto/text'
import { checkQuota } from '@licensing/quotas/quota'
import { createHash } from 'node:crypto'
import { recordedSlot } from '../activations/activate.ts'
import { byProduct } from '../activations/freeing-queries.ts'
import { checkFingerprint, checkInstallation, checkNonce } from '../activations/check-installation.ts'
import type { Installation } from '../activations/check-installation.ts'
import { assigned } from '../activations/give-slot.ts'
import type { Slot } from '../activations/give-slot.ts'
import { assignSlots } from '../activations/slots.ts'
import { refused } from '../activations/may-run.ts'
import type { RefusalReason } from '../activations/may-run.ts'
import { grantMessage } from '../activations/token.ts'
import type { ProductDependencies } from '../dependencies.ts'
import { insertHistory } from '../lifecycle/history-queries.ts'
import { newLicenceKey } from '../lifecycle/licence-key.ts'
import { addToPlanCounts } from '../lifecycle/licence-queries.ts'
import { initialStatus } from '../lifecycle/licence.ts'
import { storeSnapshots } from '../plans/snapshot-queries.ts'
import {
  countTrial,
  countTrialOfAddress,
  findTrialPlan,
  insertTrial,
  insertTrialLicence,
  lockTrial,
} from './trial-queries.ts'
import type { Machine, TrialPlan } from './trial-queries.ts'

type StartTrial = (request: StartTrialRequest) => Promise<MessageInitShape<typeof StartTrialResponseSchema>>

interface Asked extends Machine {
  planId: string
  fingerprint: string
  installation: Installation
  /** Where the product calls from, hashed. */
  addressHash: Buffer
  maxForAddress: number
  /** The longest life of its token. */
  lifeSeconds: number
}

interface Started extends Slot {
  licenceKey: string
  isNew: boolean
}

/**
 * The handler of StartTrial. Trials on a plan start one after the other, because all of them write the counter of their
 * application: requests that wait hold no connection.
 */
export function createStartTrial(deps: ProductDependencies): StartTrial {
  const turns = createKeyedQueue('too many trials are being started at the moment: try again')
  return async (request) => {
    const { applicationId, planCode, fingerprint, nonce, address, maxForAddress } = request
    checkNonce(nonce)
    const machine = { applicationId, fingerprintHash: hashOf(applicationId, checkFingerprint(fingerprint)) }
    const installation = checkInstallation(request)
    const planId = isStorable(planCode)
      ? await deps.lookups.planOfCode({ applicationId, code: planCode })
      : undefined
    if (planId === undefined) throw noTrials()
    const { lifeSeconds } = deps.tokens
    const from = { addressHash: hashOf(applicationId, address), maxForAddress }
    const asked = { ...machine, ...from, planId, fingerprint, installation, lifeSeconds }
    const start = () => deps.change((tx) => startTrial(tx, deps.now, asked))
    const started = await recordedSlot(deps, () => turns.run(planId, start))
    return {
      grant: await grantMessage(deps, started, nonce),
      licenceKey: started.licenceKey,
      created: started.isNew,
    }
  }
}

const hashOf = (applicationId: string, text: string) =>
  createHash('sha256').update(`${applicationId} ${text}`).digest()

/** Starts the machine's trial, or finds it. Activates the machine if it is not active. */
async function startTrial(tx: Transaction, clock: () => Date, asked: Asked): Promise<Started> {
  const { planId, fingerprint, installation, lifeSeconds } = asked
  const trial = await lockTrial(tx, asked)
  const plan = await findTrialPlan(tx, planId, !trial)
  // If the vendor ends the trials on a plan, running trials continue.
  if (!plan || (plan.trial_days === null && plan.id !== trial?.plan_id)) throw noTrials()
  if (trial && !trial.is_trial) throw refused('trial_used')
  const licenceKey = trial?.key ?? (await createTrial(tx, asked, plan))
  const applicant = { licenceKey, fingerprint, ...installation, lifeSeconds, isOffline: false }
  const [outcome] = await assignSlots(tx, clock, [applicant])
  if (outcome!.kind === 'refused' && isOver[outcome!.reason]) throw refused('trial_used')
  return { ...assigned(outcome!), installation, licenceKey, isNew: !trial }
}

/** Whether a licence that is refused for this reason was a trial that has ended. */
const isOver: Record<RefusalReason, boolean> = {
  suspended: false,
  domain_not_allowed: false,
  expired: true,
  revoked: true,
  retired: true,
}

/** @returns the licence's key */
async function createTrial(tx: Transaction, asked: Asked, plan: TrialPlan): Promise<string> {
  if (plan.status === 'retired') {
    throw new ServiceError('plan_archived', 'there are no new trials on this plan any more: ask the vendor')
  }
  const { applicationId, maxForAddress } = asked
  const { status, history: type } = initialStatus['on trial']
  const licence = { id: newId('lic'), key: newLicenceKey(), applicationId, plan }
  if (!(await insertTrial(tx, asked, licence.id))) throw new LostRace()
  await checkQuota(tx, plan.account_id, 'trials_per_day', await countTrial(tx, applicationId))
  if ((await countTrialOfAddress(tx, asked)) > maxForAddress) throw tooManyFrom(maxForAddress)
  await insertTrialLicence(tx, licence)
  await storeSnapshots(tx, [{ plan_id: plan.id, snapshot_id: plan.snapshot_id }])
  await insertHistory(tx, [{ licenceId: licence.id, type, to: status, actor: byProduct }])
  await addToPlanCounts(tx, new Map([[plan.id, 1]]))
  await append(tx, {
    accountId: plan.account_id,
    applicationId,
    licencePlanId: plan.id,
    payload: { case: 'licenceTrialStarted', value: { licenceId: licence.id, planId: plan.id, status } },
  })
  return licence.key
}

function noTrials(): ServiceError {
  return new ServiceError('not_found', 'this application has no plan with this code that offers trials')
}

function tooManyFrom(limit: number): ServiceError {
  const detail = `${limit} trials of this application were started from this address today: try again tomorrow`
  return new ServiceError('quota_exceeded', detail, { members: { limit } })
}
