import { closedSets, readMember } from '@licensing/proto/closed-sets'
import type { Licence, Restrictions } from '@licensing/proto/licensing'
import { z } from 'zod'
import { id } from '../../fields/id.ts'
import { metadataInAnswer } from '../../fields/metadata.ts'
import { isoText, isoTextOrNull, timestampText } from '../../fields/time.ts'

export const licenceStatus = z.enum(closedSets.licenceStatus)

export const restrictionsSchema = z
  .strictObject({
    domains: z.array(z.string()).optional(),
    max_activations: z.int().optional(),
    max_seats: z.int().optional(),
    max_concurrent: z.int().optional(),
    lease_minutes: z.int().optional(),
  })
  .meta({ id: 'Restrictions' })

export const licenceFields = {
  id: id('lic'),
  key: z.string().meta({ examples: ['7K3QX-M9V2A-D4T8E-1RZ6N-C5HWB'] }),
  status: licenceStatus,
  plan_id: id('pln'),
  application_id: id('app'),
  external_ref: z.string().describe('The vendor’s customer reference.'),
  restrictions: restrictionsSchema.nullable(),
  expires_on: timestampText.nullable().describe('null: the licence never expires.'),
  created_at: timestampText,
  updated_at: timestampText,
  status_reason: z.enum(closedSets.suspensionReason).nullable().describe('Why it is suspended.'),
  metadata: metadataInAnswer,
  updates_until: timestampText
    .nullable()
    .describe('The product may be updated to releases until this time; null: to all.'),
  trial: z.boolean().describe('A product started it as a trial, and no customer has it yet.'),
}

export const licenceSchema = z.strictObject(licenceFields).meta({ id: 'Licence' })

export function licenceJson(licence: Licence): z.output<typeof licenceSchema> {
  return {
    id: licence.id,
    key: licence.key,
    status: readMember('licenceStatus', licence.status),
    plan_id: licence.planId,
    application_id: licence.applicationId,
    external_ref: licence.externalRef,
    restrictions: restrictionsJson(licence.restrictions),
    expires_on: isoTextOrNull(licence.expiresOn),
    created_at: isoText(licence.createdAt),
    updated_at: isoText(licence.updatedAt),
    status_reason:
      licence.statusReason === undefined ? null : readMember('suspensionReason', licence.statusReason),
    metadata: licence.metadata,
    updates_until: isoTextOrNull(licence.updatesUntil),
    trial: licence.trial,
  }
}

function restrictionsJson(from: Restrictions | undefined): z.output<typeof restrictionsSchema> | null {
  if (!from) return null
  const { domains, maxActivations, maxSeats, maxConcurrent, leaseMinutes } = from
  const restrictions = {
    ...(domains.length > 0 && { domains }),
    ...(maxActivations !== undefined && { max_activations: maxActivations }),
    ...(maxSeats !== undefined && { max_seats: maxSeats }),
    ...(maxConcurrent !== undefined && { max_concurrent: maxConcurrent }),
    ...(leaseMinutes !== undefined && { lease_minutes: leaseMinutes }),
  }
  return Object.keys(restrictions).length === 0 ? null : restrictions
}
