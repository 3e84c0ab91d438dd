import { errorCatalogue } from '@licensing/proto/errors'

/** The guide to errors, from the catalogue. */
export function errorsGuide(): string {
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
