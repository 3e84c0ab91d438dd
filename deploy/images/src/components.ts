import { globSync } from 'node:fs'
import { basename } from 'node:path'
import { fileURLToPath } from 'node:url'

/** A component of the system, and the contents of its image. */
export interface Component {
  name: string
  /** Folder of its package, from the root of the checkout. */
  folder: string
  /** Programs: name in the image, source file from the root of the checkout. The image runs `main`. */
  programs: Record<string, string>
  /** Folders of migrations: path in the image → path in the checkout. */
  migrations: Record<string, string>
  /** Built folders: path in the image → path in the checkout. */
  built: Record<string, string>
  /** Folders that the component serves unchanged: path in the image → path in the checkout. */
  served: Record<string, string>
  /** Files of libraries that are read at run time. */
  libraryFiles: LibraryFiles[]
}

export interface LibraryFiles {
  /** Folder of the package that depends on the library, from the root of the checkout. */
  user: string
  library: string
  /** File or folder of the library. */
  from: string
  /** Path at which the bundled library looks for it, relative to /app of the image. */
  to: string
}

const checkout = fileURLToPath(new URL('../../..', import.meta.url))

/** The migrations of packages. A service applies those that its `tables.ts` names. */
const ofPackages = Object.fromEntries(
  globSync('packages/*/migrations/*', { cwd: checkout }).map((path) => [
    `migrations/${basename(path)}`,
    path,
  ]),
)

const referencePages = { user: 'gateway', library: '@fastify/swagger-ui', from: 'static', to: 'dist/static' }

const service = (name: string, commands: Record<string, string> = {}): Component => ({
  name,
  folder: `services/${name}`,
  programs: { main: `services/${name}/src/main.ts`, migrate: 'deploy/images/src/migrate.ts', ...commands },
  migrations: { ...ofPackages, migrations: `services/${name}/migrations` },
  built: {},
  served: {},
  libraryFiles: [],
})

export const components: readonly Component[] = [
  {
    name: 'gateway',
    folder: 'gateway',
    programs: { main: 'gateway/src/main.ts' },
    migrations: {},
    built: { 'portal/dist': 'portal/dist', 'docs/site/dist': 'docs/site/dist' },
    served: { 'deploy/downloads/dist': 'deploy/downloads/dist' },
    libraryFiles: [
      referencePages,
      { ...referencePages, from: 'static/logo.svg', to: 'dist/src/static/logo.svg' },
    ],
  },
  service('catalog', { 'licensing-admin': 'deploy/admin/src/licensing-admin.ts' }),
  service('licensing', { 'rotate-signing-keys': 'services/licensing/src/admin/rotate-signing-keys.ts' }),
  service('billing'),
  service('notifier'),
]
