import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { cpus } from 'node:os'
import { fileURLToPath } from 'node:url'
import { benchScale } from './bench-scale.ts'

/** A measured figure, with the floor that it is compared with. */
export interface Figure {
  name: string
  value: number
  unit: string
  /** The comparison: name of the floor, and value divided by floor (or floor by value if less is better). */
  floor?: string
  ratio?: number
  goal?: string
  reached?: boolean
}

export interface Section {
  title: string
  figures: Figure[]
  notes: string[]
}

const results = new URL('../results/', import.meta.url)
const baseline = new URL('baseline.json', results)

/** A figure with its goal: at least `goal` times the floor. */
export function atLeast(name: string, value: number, unit: string, floor: Figure, goal: number): Figure {
  const ratio = value / floor.value
  return { name, value, unit, floor: floor.name, ratio, goal: `≥ ${goal}`, reached: ratio >= goal }
}

/** A figure with its goal: at most `goal` times the floor. */
export function atMost(name: string, value: number, unit: string, floor: Figure, goal: number): Figure {
  const ratio = value / floor.value
  return { name, value, unit, floor: floor.name, ratio, goal: `≤ ${goal}`, reached: ratio <= goal }
}

/** A figure with an absolute upper limit. */
export function under(name: string, value: number, unit: string, limit: number): Figure {
  return { name, value, unit, goal: `≤ ${limit} ${unit}`, reached: value <= limit }
}

/** A figure with an absolute lower limit. */
export function over(name: string, value: number, unit: string, level: number): Figure {
  return { name, value, unit, goal: `≥ ${level} ${unit}`, reached: value >= level }
}

/** A figure compared with another, without a goal. */
export function beside(name: string, value: number, unit: string, floor: Figure): Figure {
  return { name, value, unit, floor: floor.name, ratio: value / floor.value }
}

export function median(values: number[]): number {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.floor(sorted.length / 2)] ?? Number.NaN
}

/** The quantile of the values for this share. */
export function quantile(values: number[], share: number): number {
  const sorted = values.toSorted((a, b) => a - b)
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN
}

export function printSection({ title, figures, notes }: Section): void {
  process.stdout.write(`\n${title}\n`)
  const rows = figures.map((figure) => [
    figure.name,
    `${rounded(figure.value)} ${figure.unit}`,
    figure.ratio === undefined ? '' : `${figure.ratio.toFixed(2)} × ${figure.floor}`,
    figure.goal === undefined ? '' : `${figure.goal} ${figure.reached ? 'reached' : 'NOT reached'}`,
  ])
  const widths = [0, 1, 2, 3].map((at) => Math.max(...rows.map((row) => row[at]!.length)))
  for (const row of rows) {
    process.stdout.write(
      `  ${row
        .map((cell, at) => cell.padEnd(widths[at]!))
        .join('  ')
        .trimEnd()}\n`,
    )
  }
  for (const note of notes) process.stdout.write(`  ${note}\n`)
}

/** The ratios of a section. Its figures depend on the machine. */
interface Ratios {
  title: string
  figures: { name: string; floor: string; ratio: number }[]
}

/** The ratios that later runs are compared with. */
export async function readBaseline(): Promise<Ratios[]> {
  const { sections } = JSON.parse(await readFile(baseline, 'utf8')) as { sections: Ratios[] }
  return sections
}

/** Writes the ratios of these sections to the baseline, in place of their previous ratios. */
export async function keepBaseline(sections: Section[]): Promise<void> {
  const kept = ratiosOf(sections)
  const titles = new Set(kept.map(({ title }) => title))
  const others = (await readBaseline()).filter(({ title }) => !titles.has(title))
  await writeFile(baseline, `${JSON.stringify({ sections: [...others, ...kept] }, null, 2)}\n`)
}

export function ratiosOf(sections: Section[]): Ratios[] {
  return sections.map(({ title, figures }) => ({
    title,
    figures: figures.flatMap(({ name, floor, ratio }) =>
      floor === undefined || ratio === undefined ? [] : [{ name, floor, ratio: Number(ratio.toFixed(2)) }],
    ),
  }))
}

/** How much worse than the baseline a ratio may be, because measurements vary. */
const tolerated = 1.2

/**
 * Lists the ratios of these sections that are worse than in the baseline, with both values. Only ratios are compared: both
 * figures of a ratio come from the same run, so it depends less on the machine.
 */
export function worseThan(before: Ratios[], sections: Section[]): string[] {
  return sections.flatMap(({ title, figures }) => {
    const known = before.find((section) => section.title === title)?.figures ?? []
    return figures.flatMap((figure) => {
      const { name, floor, ratio } = figure
      const then = known.find((each) => each.name === name && each.floor === floor)?.ratio
      if (ratio === undefined || then === undefined) return []
      const factor = isMoreBetter(figure) ? then / ratio : ratio / then
      if (factor <= tolerated) return []
      return [`${title}: ${name} is ${ratio.toFixed(2)} × ${floor}, and was ${then.toFixed(2)}`]
    })
  })
}

/** Rates are better if they are higher; times and sizes if they are lower. */
const isMoreBetter = ({ goal, unit }: Figure) => goal?.startsWith('≥') ?? unit.startsWith('/')

/** Writes all sections of a run to `tests/bench/results/latest.local.json`. @returns the file */
export async function writeReport(sections: Section[]): Promise<string> {
  await mkdir(results, { recursive: true })
  const file = new URL('latest.local.json', results)
  const machine = { cores: cpus().length, model: cpus()[0]?.model, node: process.version }
  const run = { at: new Date().toISOString(), scale: benchScale, machine, sections }
  await writeFile(file, `${JSON.stringify(run, null, 2)}\n`)
  return fileURLToPath(file)
}

function rounded(value: number): string {
  if (value >= 100) return Math.round(value).toLocaleString('en')
  return value.toFixed(value >= 10 ? 1 : 2)
}
