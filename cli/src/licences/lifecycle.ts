import type { Command } from '../command/command.ts'

const verbs = {
  suspend: 'Suspend a licence; it can be reactivated',
  reactivate: 'Reactivate a suspended licence',
  revoke: 'Revoke a licence, permanently',
  retire: 'Retire a licence, permanently',
} as const

export const lifecycleCommands: readonly Command[] = (Object.keys(verbs) as (keyof typeof verbs)[]).map(
  (verb) => ({
    name: `licences ${verb}`,
    argument: 'ID',
    summary: verbs[verb],
    options: {},
    examples: [`licences ${verb} lic_01k9zj3v8qe5ktw2m4x6r7n8ab`],
    async run({ argument, backend, out }) {
      const licence = await backend.post(`/v1/licences/{licence_id}/${verb}`, {
        path: { licence_id: argument },
      })
      out.result(licence, [[`${licence.id} `, { text: licence.status, colour: 'green' }]])
      return 0
    },
  }),
)
