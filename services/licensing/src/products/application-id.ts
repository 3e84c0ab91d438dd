import { isId } from '@licensing/database/ids'
import { ServiceError } from '@licensing/grpc/errors'

/** What has not the form of an id gets no keys; whether there is such an application, the gateway has asked. */
export function checkApplicationId(applicationId: string): void {
  if (!isId('app', applicationId))
    throw new ServiceError('not_found', `there is no application ${applicationId}`)
}
