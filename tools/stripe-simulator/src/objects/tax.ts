/** Tax on an amount in minor units, rounded half up to whole minor units. */
export function taxOn(amount: number, percent: number): number {
  return Math.round((Math.max(0, amount) * percent) / 100)
}
