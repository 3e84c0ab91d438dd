import { errorCatalogue } from '@licensing/proto/errors'
import { webhookEventTypes, webhookFields, webhookOccasions } from '@licensing/proto/webhook-events'
import { openApiDocument } from './openapi/document.ts'
import { exampleEvent, fieldMeaning } from './openapi/webhooks.ts'
import { routes } from './routes/table.ts'

const root = new URL('../../', import.meta.url)

/** The files that are generated from the code. */
export const generatedFiles = [
  { file: new URL('gateway/openapi.json', root), make: openApiText },
  { file: new URL('docs/guides/events.md', root), make: eventsGuide },
  { file: new URL('docs/guides/errors.md', root), make: errorsGuide },
]

/** The OpenAPI document. The SDK's typed client is generated from it. */
function openApiText(): string {
  return `${JSON.stringify(openApiDocument(routes), null, 2)}\n`
}

/** The guide to errors, from the catalogue. */
function errorsGuide(): string {
  const rows = Object.entries(errorCatalogue)
    .toSorted(([, a], [, b]) => a.http - b.http)
    .map(([code, { http, meaning, remedy }]) => `| ${http} | \`${code}\` | ${meaning} | ${remedy} |`)
  return `# Errors

Every error code, what it means and what to do.

Errors are \`application/problem+json\` (RFC 9457). Use \`code\` in your program; \`detail\` is a message for people. Include
\`request_id\` when you ask for support.

\`\`\`json
{
  "type": "/errors/conflict",
  "title": "Conflict",
  "status": 409,
  "code": "conflict",
  "detail": "licence lic_01k9zj3v8qe5ktw2m4x6r7n8ab is suspended; only an active licence can be suspended",
  "request_id": "0b9f6c1e-7d0b-4f7e-9d53-1f0f4f1c2c55",
  "current": "suspended",
  "allowed": ["reactivate", "revoke", "retire"]
}
\`\`\`

\`validation_failed\` has \`errors\`: each invalid field as a JSON Pointer, with a message. \`conflict\` can have \`current\`, the state of
the resource, and \`allowed\`, the verbs that are possible now.

## Retries

GET, PUT and DELETE, and a POST with an \`Idempotency-Key\`, are safe to retry. Retry after 429 and 503 (wait for the seconds in
\`Retry-After\`), after 500, and after a lost connection. Other errors need a changed request.

## Error codes

| status | code | meaning | what to do |
| --- | --- | --- | --- |
${rows.join('\n')}
`
}

/** The guide to events, from events.proto. */
function eventsGuide(): string {
  const sections = webhookEventTypes.map((type) => {
    const { previous, ...fields } = webhookFields[type]!
    const rows = Object.entries(fields).map(
      ([name, kind]) =>
        `| \`${name}\` | ${kind.replace('?', '')} | ${kind.endsWith('?') ? 'if known' : 'always'} | ${fieldMeaning(name, kind)} |`,
    )
    const before =
      previous === undefined ? '' : '\n`previous` contains the former `plan_id` of the licence.\n'
    return `## ${type}

${webhookOccasions[type]}

| \`data.object\` | type | present | description |
| --- | --- | --- | --- |
${rows.join('\n')}
${before}
\`\`\`json
${JSON.stringify(exampleEvent(type), null, 2)}
\`\`\``
  })
  return `# Events

Every event type, when it is sent, and its fields.

For signatures and retries see [webhooks](webhooks.md).

All events have the same envelope:

| field | description |
| --- | --- |
| \`id\` | the same in every attempt; handle each id once |
| \`type\` | the event type; answer 2xx to types that you do not know |
| \`api_version\` | date of the event schema |
| \`created_at\` | when the event was recorded |
| \`sequence\` | number of the event in the account, without gaps |
| \`account_id\`, \`application_id\` | the account and the application |
| \`data.object\` | the fields listed below |
| \`previous\` | null, except for \`licence.plan_changed\` |

Events contain identifiers and statuses, but no customer data. Fetch the licence for details.

${sections.join('\n\n')}
`
}
