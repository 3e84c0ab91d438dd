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
