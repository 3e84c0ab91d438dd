/** The public API of the package for webhook endpoints. */
export {
  verifyWebhook,
  WebhookVerificationError,
  type VerifyWebhookOptions,
  type WebhookVerificationReason,
} from './webhooks/verify-webhook.ts'
export {
  webhookEventTypes,
  type WebhookEnvelope,
  type WebhookEvent,
  type WebhookEventType,
  type WebhookObjects,
} from './webhooks/webhook-event.ts'
