import {
  lstat,
  mkdir,
  mkdtempDisposable,
  readdir,
  readFile,
  stat,
  symlink,
  writeFile,
} from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { fileStore } from './file-store.ts'

const newFolder = () => mkdtempDisposable(join(tmpdir(), 'licence-'))

describe('fileStore', () => {
  it('is empty before the first write, then returns the text that was last written, and creates its folder', async () => {
    await using folder = await newFolder()
    const path = join(folder.path, 'acme', 'data', 'licence.json')
    await expect(fileStore(path).read()).resolves.toBeNull()
    await fileStore(path).write('one')
    await fileStore(path).write('two')
    await expect(fileStore(path).read()).resolves.toBe('two')
  })

  it('can be read only by its owner', async () => {
    await using folder = await newFolder()
    const path = join(folder.path, 'licence.json')
    await fileStore(path).write('secret')
    const { mode } = await stat(path)
    expect(mode & 0o777).toBe(0o600)
  })

  it('always returns a whole text while other processes write, and leaves no other files', async () => {
    await using folder = await newFolder()
    const path = join(folder.path, 'licence.json')
    const store = fileStore(path)
    const texts = Array.from({ length: 30 }, (_, index) => String(index).repeat(20_000))
    await store.write(texts[0] ?? '')
    const writing = Promise.all(texts.map((text) => store.write(text)))
    const seen = await Promise.all(texts.map(() => readFile(path, 'utf8')))
    await writing
    expect(seen.every((text) => texts.includes(text))).toBe(true)
    await expect(readdir(folder.path)).resolves.toEqual(['licence.json'])
  })

  it('writes the file that a symbolic link points to, and keeps the link', async () => {
    await using folder = await newFolder()
    const at = (name: string) => join(folder.path, name)
    await mkdir(at('data'))
    await symlink('data/licence.json', at('link'))
    const store = fileStore(at('link'))
    await expect(store.read()).resolves.toBeNull()
    await store.write('one')
    await store.update((text) => Promise.resolve(`${text} two`))
    await expect(readFile(at('data/licence.json'), 'utf8')).resolves.toBe('one two')
    expect((await lstat(at('link'))).isSymbolicLink()).toBe(true)
    await expect(readdir(at('data'))).resolves.toEqual(['licence.json'])
  })

  it('calls the change again if another process has written a text in between', async () => {
    await using folder = await newFolder()
    const path = join(folder.path, 'licence.json')
    const seen: (string | null)[] = []
    await fileStore(path).update(async (text) => {
      seen.push(text)
      if (text === null) await fileStore(path).write('theirs')
      return `${text} and mine`
    })
    expect(seen).toEqual([null, 'theirs'])
    await expect(fileStore(path).read()).resolves.toBe('theirs and mine')
  })

  it('rejects if the file cannot exist', async () => {
    await using folder = await newFolder()
    await writeFile(join(folder.path, 'plain'), '')
    const store = fileStore(join(folder.path, 'plain', 'licence.json'))
    await expect(store.read()).rejects.toThrow('ENOTDIR')
    await expect(store.write('text')).rejects.toThrow('ENOTDIR')
  })
})
