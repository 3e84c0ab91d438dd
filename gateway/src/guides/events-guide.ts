import { webhookEventTypes, webhookFields, webhookOccasions } from '@licensing/proto/webhook-events'
import { exampleEvent, fieldMeaning } from '../openapi/webhooks.ts'

/** The guide to events, from events.proto. */
export function eventsGuide(): string {
  const sections = webhookEventTypes.map((type) => {
    const { previous, ...fields } = webhookFields[type]!
    const rows = Object.entries(fields).map(
      ([name, kind]) =>
        `| \`${name}\` | ${kind.replace('?', '')} | ${kind.endsWith('?') ? 'where known' : 'always'} | ${fieldMeaning(name, kind)} |`,
    )
    const before = previous === undefined ? '' : '\n`previous` holds the `plan_id` that the licence had.\n'
    return `## ${type}

${webhookOccasions[type]}

| \`data.object\` | type | there | what it is |
| --- | --- | --- | --- |
${rows.join('\n')}
${before}
\`\`\`json
${JSON.stringify(exampleEvent(type), null, 2)}
\`\`\``
  })
  return `# Events

Every event that your backend can receive, when, and with which fields. Made from the service's own declarations.

All have the same envelope: \`id\` (the same in every attempt: handle it once), \`type\`, \`api_version\` (the date of the
schema), \`created_at\`, \`sequence\` (grows with each event of the account, without a gap), \`account_id\`, \`application_id\`,
\`data.object\` with the fields below, and \`previous\`, which is null except where a section says otherwise. They carry
identifiers and status, no customer data: fetch the licence for more. New types appear over time: acknowledge and ignore
those that you do not know. How they are signed and retried: [webhooks](webhooks.md).

${sections.join('\n\n')}
`
}
