import { LicensingApiError } from '@licensing/sdk/backend'

/** A refusal of a field before anything is sent; the form shows it like one of the service. */
export function refusedField(pointer: string, message: string): LicensingApiError {
  return new LicensingApiError('validation_failed', 422, {
    detail: 'a field is not valid',
    errors: [{ pointer, message }],
  })
}
