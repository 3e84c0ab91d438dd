import type { Command } from './command/command.ts'
import { importLicences } from './import/import.ts'
import { findLicences, showLicence, lifecycleCommands } from './licences/licences.ts'
import { listen } from './listen/listen.ts'
import { applyCatalogue } from './products/apply.ts'
import { exportCatalogue } from './products/catalogue.ts'
import { trigger } from './trigger/trigger.ts'

/** Every command, in the order in which the help lists them. */
export const commands: readonly Command[] = [
  listen,
  trigger,
  exportCatalogue,
  applyCatalogue,
  findLicences,
  showLicence,
  ...lifecycleCommands,
  importLicences,
]
