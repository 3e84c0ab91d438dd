import { errorCatalogue } from '@licensing/proto/errors'

/** The guide to errors, from the catalogue. */
export function errorsGuide(): string {
  const rows = Object.entries(errorCatalogue)
    .toSorted(([, a], [, b]) => a.http - b.http)
    .map(([code, { http, meaning, remedy }]) => `| ${http} | \`${code}\` | ${meaning} | ${remedy} |`)
  return `# Errors

What is refused, why, and what to do about it. Made from the service's own catalogue.

An error is \`application/problem+json\` (RFC 9457). Programs go by \`code\`; \`detail\` is for people; \`request_id\` finds the
request in the service's logs, so quote it when you ask for help.

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

\`errors\` of a \`validation_failed\` names each field with a JSON Pointer; \`current\` and \`allowed\` of a \`conflict\` say what
was found and which verbs would change it now.

Sending a request again is safe for GET and PUT, and for every POST that carries an \`Idempotency-Key\`. Worth it are 429 and
503, after the seconds in \`Retry-After\`, and a lost connection. Everything else answers the same again.

| status | code | meaning | what to do |
| --- | --- | --- | --- |
${rows.join('\n')}
`
}
