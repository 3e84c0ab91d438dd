import type { Schemas } from '@licensing/sdk/backend'
import type { Command } from '../command/command.ts'

export const findLicences: Command = {
  name: 'licences find',
  argument: 'QUERY',
  summary: 'Find licences by id, key, host, charge, sale or the beginning of a customer reference',
  options: {},
  examples: ['licences find customer-4711', 'licences find app.example.com --json'],
  async run({ argument, backend, appId, out }) {
    const { data } = await backend.get('/v1/apps/{app_id}/search', {
      path: { app_id: await appId() },
      query: { q: argument },
    })
    if (data.length === 0 && !out.json) out.message('no licence found')
    else {
      const rows = data.map(({ matched, licence: { id, status, external_ref: reference } }) =>
        [id, status.padEnd(9), reference, `(by ${matched})`].join('  '),
      )
      out.result(data, rows)
    }
    return 0
  },
}

export const showLicence: Command = {
  name: 'licences show',
  argument: 'ID',
  summary: 'Show one licence',
  options: {},
  examples: ['licences show lic_01k9zj3v8qe5ktw2m4x6r7n8ab'],
  async run({ argument, backend, out }) {
    const licence = await backend.get('/v1/licences/{licence_id}', { path: { licence_id: argument } })
    const lines = Object.entries(licence).map(([name, value]) => `${name}: ${textOf(value)}`)
    out.result(licence, lines)
    return 0
  },
}

const textOf = (value: unknown) => (typeof value === 'string' ? value : JSON.stringify(value))

const verbs = {
  suspend: 'Suspend a licence; it can be reactivated',
  reactivate: 'Reactivate a suspended licence',
  revoke: 'Revoke a licence, permanently',
  retire: 'Retire a licence, permanently',
} as const satisfies Record<Schemas['LicenceDetail']['allowed'][number], string>

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
