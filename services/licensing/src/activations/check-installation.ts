import { invalid } from '@licensing/grpc/errors'
import { problemOfMachineName, readMachineName } from '@licensing/proto/host-name'
import { problemOfText, textLimits } from '@licensing/proto/text'
import type { TextLimit } from '@licensing/proto/text'

/** The host and version of an installed product. */
export interface Installation {
  /** The machine's name, as it is compared. */
  host: string
  productVersion: string
}

/** @throws ServiceError `validation_failed` */
export function checkInstallation(given: { host: string; productVersion: string }): Installation {
  const problem = problemOfMachineName(given.host)
  if (problem) throw invalid('/host', problem)
  checkText('/product_version', given.productVersion, textLimits.product)
  return { host: readMachineName(given.host), productVersion: given.productVersion }
}

export function checkFingerprint(fingerprint: string): string {
  checkText('/fingerprint', fingerprint, textLimits.product)
  return fingerprint
}

/** @throws ServiceError `validation_failed` */
export function checkNonce(nonce: string | undefined): void {
  if (nonce !== undefined) checkText('/nonce', nonce, textLimits.product)
}

function checkText(pointer: string, text: string, limit: TextLimit): void {
  const problem = problemOfText(text, limit)
  if (problem) throw invalid(pointer, problem)
}
