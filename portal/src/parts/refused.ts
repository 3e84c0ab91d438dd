import { LicensingApiError } from '@licensing/sdk/backend'

/** An error at a field that is found before anything is sent. The form shows it like an error of the service. */
export function refusedField(pointer: string, message: string): LicensingApiError {
  return new LicensingApiError('validation_failed', 422, {
    detail: 'a field is not valid',
    errors: [{ pointer, message }],
  })
}
