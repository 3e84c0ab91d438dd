import { licenceSabotages } from './sabotages/licences.ts'
import { historySabotages } from './sabotages/histories.ts'
import { catalogSabotages } from './sabotages/catalog.ts'
import { eventSabotages } from './sabotages/events.ts'
import { deliverySabotages } from './sabotages/deliveries.ts'
import { moneySabotages } from './sabotages/money.ts'
import { figureSabotages } from './sabotages/figures.ts'
import type { Sabotage } from './sabotages/sabotage.ts'

/** Everything that the check is shown to see, one at a time. */
export const sabotages: Sabotage[] = [
  ...licenceSabotages,
  ...historySabotages,
  ...catalogSabotages,
  ...eventSabotages,
  ...deliverySabotages,
  ...moneySabotages,
  ...figureSabotages,
]
