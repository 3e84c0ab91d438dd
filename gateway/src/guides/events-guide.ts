import { webhookEventTypes, webhookFields, webhookOccasions } from '@licensing/proto/webhook-events'
import { exampleEvent, fieldMeaning } from '../openapi/webhooks.ts'

/** The guide to events, from events.proto. */
export function eventsGuide(): string {
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
