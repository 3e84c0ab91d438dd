import { billingConfig } from '@licensing/billing/config'
import { catalogConfig } from '@licensing/catalog/config'
import { gatewayConfig } from '@licensing/gateway/config'
import { licensingConfig } from '@licensing/licensing/config'
import { CHECKOUT } from '@licensing/local-servers/services'
import { notifierConfig } from '@licensing/notifier/config'
import { z } from 'zod'

type Schema = z.core.$ZodType

/** The environment variables of each component. */
export const configurations = {
  gateway: gatewayConfig,
  catalog: catalogConfig,
  licensing: licensingConfig,
  billing: billingConfig,
  notifier: notifierConfig,
} as const satisfies Record<string, z.ZodObject>

interface Variable {
  name: string
  meaning: string
  unit: string
  default: string
}

/** The page docs/operations/configuration.md. */
export function configurationPage(): string {
  const components = Object.entries(configurations).map(([component, { shape }]) => ({
    component,
    variables: Object.entries(shape as Record<string, Schema>).map(([name, schema]) =>
      describe(name, schema),
    ),
  }))
  const isShared = (wanted: Variable, by: typeof components) =>
    by.every(({ variables }) => variables.some((each) => rowOf(each) === rowOf(wanted)))
  const [gateway, ...services] = components
  const inAll = gateway!.variables.filter((variable) => isShared(variable, components))
  const inServices = services[0]!.variables.filter(
    (variable) => isShared(variable, services) && !isShared(variable, components),
  )
  const own = components.map(({ component, variables }) => ({
    title: `${component.slice(0, 1).toUpperCase()}${component.slice(1)}`,
    variables: variables.filter(
      (variable) =>
        !isShared(variable, components) && !(component !== 'gateway' && isShared(variable, services)),
    ),
  }))
  const sections = [
    { title: 'Every process', variables: inAll },
    { title: 'Catalog, licensing, billing and notifier', variables: inServices },
    ...own,
  ]
  return `# Configuration

Every environment variable of the gateway and the services. A process that finds an invalid variable lists all of them and ends with code 2. An
empty variable counts as absent. This page is generated: \`pnpm --filter @licensing/operations generate\`.

${sections.map(({ title, variables }) => `## ${title}\n\n${tableOf(variables)}`).join('\n\n')}
`
}

function tableOf(variables: Variable[]): string {
  const rows = variables.toSorted((a, b) => a.name.localeCompare(b.name)).map(rowOf)
  return ['| variable | meaning | unit or format | default |', '| - | - | - | - |', ...rows].join('\n')
}

const rowOf = ({ name, meaning, unit, default: value }: Variable) =>
  `| \`${name}\` | ${meaning} | ${unit} | ${value} |`

function describe(name: string, schema: Schema): Variable {
  const meaning = z.globalRegistry.get(schema)?.description
  if (meaning === undefined) throw new Error(`${name} has no description`)
  const layers = layersOf(schema)
  return { name, meaning: meaning.replaceAll('|', '\\|'), unit: unitOf(layers), default: defaultOf(layers) }
}

/** A schema and all that it wraps, from outside to inside. */
function layersOf(schema: Schema): Schema[] {
  const { innerType, in: input } = schema._zod.def as { innerType?: Schema; in?: Schema }
  const inner = innerType ?? input
  return inner === undefined ? [schema] : [schema, ...layersOf(inner)]
}

function unitOf(layers: Schema[]): string {
  for (const layer of layers) {
    const unit = z.globalRegistry.get(layer)?.['unit']
    if (typeof unit === 'string') return unit
    if (layer instanceof z.ZodEnum) return layer.options.map((option) => `\`${option}\``).join(', ')
    if (layer instanceof z.ZodURL) return 'URL'
  }
  return 'text'
}

function defaultOf(layers: Schema[]): string {
  for (const layer of layers) {
    if (layer instanceof z.ZodDefault || layer instanceof z.ZodPrefault) {
      const value = String(layer.def.defaultValue)
      return value === '' ? '–' : `\`${value.replace(CHECKOUT, '')}\``
    }
    if (layer instanceof z.ZodOptional) return '–'
  }
  return 'required'
}
