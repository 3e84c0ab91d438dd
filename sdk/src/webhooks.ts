/** The public face of the package for those who receive webhooks. */
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
