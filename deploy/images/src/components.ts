/** A component of the house, and what goes into its image. */
export interface Component {
  name: string
  /** Folder of its package, from the root of the checkout. */
  folder: string
  /** Programs: name in the image, source file from the package's folder. The first one is what the image runs. */
  programs: Record<string, string>
  /** Folders of migrations, from the root of the checkout: where they lie in the image → where they come from. */
  migrations: Record<string, string>
  /** Files that are read at run time: from the bundle's folder → from the package's folder. */
  files?: Record<string, string>
}

const outbox = { 'migrations/outbox': 'packages/events/migrations/outbox' }
const consumers = { 'migrations/consumers': 'packages/events/migrations/consumers' }

const service = (
  name: string,
  migrations: Record<string, string>,
  commands: Record<string, string> = {},
): Component => ({
  name,
  folder: `services/${name}`,
  programs: { main: 'src/main.ts', ...commands },
  migrations: { ...migrations, migrations: `services/${name}/migrations` },
})

export const components: readonly Component[] = [
  { name: 'gateway', folder: 'gateway', programs: { main: 'src/main.ts' }, migrations: {} },
  service('catalog', outbox, { 'licensing-admin': 'src/admin/licensing-admin.ts' }),
  service('licensing', { ...outbox, ...consumers }),
  service('billing', { ...outbox, ...consumers }),
  service('notifier', { ...outbox, ...consumers }),
]
