import { ServiceError } from '@licensing/grpc/errors'
import type { FieldError } from '@licensing/grpc/errors'
import { problemOfText, textLimits } from '@licensing/proto/text'
import { isId } from '@licensing/database/ids'
import type { IdPrefix } from '@licensing/database/ids'
import type { PageRequest } from '@licensing/database/page'

/**
 * The same error for a resource that does not exist, for a resource of another account, and for a text that is no id.
 */
export function notFound(noun: string, id: string): ServiceError {
  const shown = /^[\x21-\x7e]{1,64}$/.test(id) ? ` ${id}` : ' of this id'
  return new ServiceError('not_found', `there is no ${noun}${shown}`)
}

/** @throws ServiceError `not_found` if this is no id of an application */
export function checkApplicationId(id: string): void {
  if (!isId('app', id)) throw notFound('application', id)
}

/** Collects the fields that break a rule, so that one error reports all of them. */
export class Violations {
  readonly #errors: FieldError[] = []

  readonly add = (pointer: string, message: string): void => {
    this.#errors.push({ pointer, message })
  }

  /** @throws ServiceError `validation_failed` if a field breaks a rule */
  throwIfAny(): void {
    const [first] = this.#errors
    if (first) throw new ServiceError('validation_failed', first.message, { errors: this.#errors })
  }

  /** Checks a display name. */
  checkName(pointer: string, text: string): void {
    const problem = problemOfText(text, textLimits.name)
    if (problem) this.add(pointer, problem)
  }
}

/** @throws ServiceError `bad_request` if `beforeId` is no id of this kind */
export function checkPage(prefix: IdPrefix, page: PageRequest): void {
  if (page.beforeId === '' || isId(prefix, page.beforeId)) return
  throw new ServiceError(
    'bad_request',
    'the cursor is invalid: send next_cursor of the previous page unchanged',
  )
}
