import { CHECKOUT } from '@licensing/local-servers/services'
import { readCsv } from '@licensing/csv/csv-reader'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { parse } from 'yaml'
import { complaintsAbout } from './compile.ts'
import { blocksOf, documents, runElsewhere, scripts } from './documents.ts'
import type { Block } from './documents.ts'

/** Languages of blocks that are neither run nor checked. A block without a language is a drawing or an output. */
const forReaders = ['', 'text', 'mermaid']
const checked = ['ts', 'tsx']
const parsed: Readonly<Record<string, (code: string) => unknown>> = {
  json: (code) => JSON.parse(code) as unknown,
  yaml: (code) => parse(code) as unknown,
  csv: (code) => expect([...readCsv(code)].filter(({ flaw }) => flaw !== undefined)).toEqual([]),
}

function isTried(document: string, { language }: Block): boolean {
  if (forReaders.includes(language) || checked.includes(language) || language in parsed) return true
  if (['sh', 'js'].includes(language) && scripts.includes(document)) return true
  return runElsewhere[document]?.includes(language) ?? false
}

test('every block of code in a document is run or checked by a test, or says that it is text', () => {
  const all = documents().flatMap((document) => blocksOf(document).map((block) => ({ document, block })))
  expect(all.length).toBeGreaterThan(60)
  for (const { document, block } of all) {
    const { language, file, code } = block
    expect(isTried(document, block), `${document}: \`\`\`${language} is run by no test:\n${code}`).toBe(true)
    parsed[language]?.(code)
    if (!scripts.includes(document) || runElsewhere[document]?.includes(language)) continue
    // A program that no command mentions would not be run by any test.
    const others = blocksOf(document).filter((other) => other.code !== code)
    const isUsed = file === undefined ? language !== 'js' : others.some((other) => other.code.includes(file))
    expect(isUsed, `${document}: no command uses ${file ?? code}`).toBe(true)
  }
})

test('every code fence is read as a block', async () => {
  for (const document of documents()) {
    const text = await readFile(join(CHECKOUT, document), 'utf8')
    const fences = text.match(/^\s*(?:```|~~~)/gm) ?? []
    expect(fences, document).toHaveLength(2 * blocksOf(document).length)
  }
})

const languages = ['TypeScript', 'Python', 'Go', 'Java', 'Rust', 'C++', 'C#']

test.each(['quickstart', 'products', 'offline', 'webhooks', 'testing'])(
  'each passage of the guide %s that differs between languages has a section for each of them',
  async (guide) => {
    const page = await readFile(join(CHECKOUT, `docs/guides/${guide}.md`), 'utf8')
    // A passage is a heading of the second level, with its sections.
    const sections = page
      .replaceAll(/^```[^]*?^```$/gm, 'a block')
      .split(/^## /m)
      .map((passage) => [...passage.matchAll(/^### (.+)\n+([^#])/gm)].map(([, heading]) => heading))
    const differing = sections.filter((headings) => headings.some((name) => languages.includes(name!)))
    expect(differing.length).toBeGreaterThan(0)
    for (const headings of differing) {
      expect(headings.filter((name) => languages.includes(name!))).toEqual(languages)
    }
  },
)

// The parts of Electron that documents use. No installed package has their types.
const electron = `declare module 'electron' {
  export const app: { getPath(name: 'userData'): string; whenReady(): Promise<void>; getVersion(): string }
  export class BrowserWindow {
    constructor(options: { webPreferences: { preload: string } })
    readonly webContents: { send(channel: string, ...args: unknown[]): void }
    loadFile(path: string): Promise<void>
    static getAllWindows(): BrowserWindow[]
  }
  export const ipcMain: { handle(channel: string, listener: (event: unknown, ...args: unknown[]) => unknown): void }
  export const ipcRenderer: {
    invoke(channel: string, ...args: unknown[]): Promise<unknown>
    on(channel: string, listener: (event: unknown, ...args: unknown[]) => void): unknown
  }
  export const contextBridge: { exposeInMainWorld(name: string, api: object): void }
}
`

test('TypeScript in documents compiles against the types of the published packages', async () => {
  const files = documents().flatMap((document) =>
    blocksOf(document)
      .filter(({ language }) => checked.includes(language))
      .map(({ language, code }, at) => [`${document.replaceAll('/', '-')}-${at + 1}.${language}`, code]),
  )
  expect(files.length).toBeGreaterThan(8)
  const sources = { ...(Object.fromEntries(files) as Record<string, string>), 'electron.d.ts': electron }
  const options = { lib: ['esnext', 'dom'], jsx: 'react-jsx', noUnusedLocals: false }
  expect(await complaintsAbout(sources, options)).toBe('')
})
