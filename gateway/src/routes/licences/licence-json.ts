import { closedSets } from '@licensing/proto/closed-sets'
import { LicenceSchema } from '@licensing/proto/licensing'
import { z } from 'zod'
import { id } from '../../fields/id.ts'
import { renderer } from '../../fields/messages.ts'
import { timestampText } from '../../fields/time.ts'
import { shownFields } from './licence-fields.ts'

export const licenceStatus = z.enum(closedSets.licenceStatus)

export const licenceProperties = {
  id: id('lic'),
  key: z.string().meta({ examples: ['7K3QX-M9V2A-D4T8E-1RZ6N-C5HWB'] }),
  status: licenceStatus,
  plan_id: id('pln'),
  application_id: id('app'),
  ...shownFields,
  created_at: timestampText,
  updated_at: timestampText,
  status_reason: z.enum(closedSets.suspensionReason).nullable().describe('Why it is suspended.'),
  trial: z.boolean().describe('A product started it as a trial, and no customer has it yet.'),
}

export const licenceSchema = z.strictObject(licenceProperties).meta({ id: 'Licence' })

export const licenceJson = renderer(LicenceSchema, licenceSchema)
