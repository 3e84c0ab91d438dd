import type { Command } from '../command/command.ts'

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
