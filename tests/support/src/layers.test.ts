import { CHECKOUT } from '@licensing/local-servers/services'
import { globSync, readFileSync } from 'node:fs'
import { join, posix } from 'node:path'
import { expect, test } from 'vitest'

const parts = [
  'services/catalog',
  'services/licensing',
  'services/billing',
  'services/notifier',
  'gateway',
  'portal',
  'cli',
  'sdk/typescript',
]

/** The layers of a part from the bottom up, each with its folders and files (docs/architecture.md, "Layers"). */
function layersOf(part: string): string[][] {
  const [, line = ''] = new RegExp(`^${part} +(.+)$`, 'm').exec(read('docs/architecture.md')) ?? []
  return line.split(' | ').map((layer) => layer.split(' '))
}

const read = (file: string) => readFileSync(join(CHECKOUT, file), 'utf8')

interface Import {
  from: string
  to: string
  isOfTypes: boolean
}

function importsIn(src: string): Import[] {
  const files = globSync('**/*.{ts,tsx}', { cwd: join(CHECKOUT, src), exclude: ['**/*.test.{ts,tsx}'] })
  return files.flatMap((from) => {
    const text = read(join(src, from))
    const statements = text.matchAll(/^import (type )?[^']*'(\.[^']+)'|import\('(\.[^']+)'\)/gm)
    return [...statements].map(([, type, imported, loaded]) => ({
      from,
      to: posix.join(posix.dirname(from), imported ?? loaded!),
      isOfTypes: type !== undefined,
    }))
  })
}

const topOf = (file: string) => file.split('/')[0]!

test.each(parts)('a folder of %s imports only from itself and from lower layers', (part) => {
  const src = `${part}/src`
  const layers = layersOf(part)
  const folders = new Set(globSync('*/**/*.{ts,tsx}', { cwd: join(CHECKOUT, src) }).map(topOf))
  expect(new Set(layers.flat().filter((name) => !name.endsWith('.ts')))).toEqual(folders)

  const layerOf = (file: string) => layers.findIndex((names) => names.includes(topOf(file)))
  const upward = importsIn(src).filter(({ from, to, isOfTypes }) => {
    const isOnTop = layerOf(from) < 0
    if (isOnTop || topOf(from) === topOf(to) || (isOfTypes && !from.includes('/'))) return false
    return layerOf(to) < 0 || layerOf(to) >= layerOf(from)
  })
  expect(upward.map(({ from, to }) => `${from} imports ${to}`)).toEqual([])
})
