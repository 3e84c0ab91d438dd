/** The public API of the package for installed products. */
export { LicenceClient, type LicenceClientOptions } from './product/client.ts'
export type { LicenceListener } from './product/session.ts'
export type { LicenceClientStatus, Problem, Reason } from './product/reasons.ts'
export type { LicenceState } from './product/state.ts'
export { memoryStore, webStorageStore, type LicenceStore } from './product/store.ts'
export { verifyWebhook, WebhookVerificationError } from './webhooks/verify-webhook.ts'
