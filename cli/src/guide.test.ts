import { Command } from '@commander-js/extra-typings'
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { guide, guideFile, reference } from './guide.ts'

test('the guide lists every command and option: run pnpm --filter @licensing/cli guide', () => {
  expect(readFileSync(guideFile, 'utf8')).toBe(guide())
})

test('the guide names the commands that ask for confirmation', () => {
  const text = guide()
  const [, named = ''] = /commands that cannot be undone \(([^)]+)\) ask first/.exec(text) ?? []
  const asking = [...text.matchAll(/^### (?:.* )?(\S+)\n(?:(?!^### ).*\n)*?- `--yes`/gm)].map(
    ([, name]) => name,
  )
  expect(new Set([...named.matchAll(/`([^`]+)`/g)].map(([, name]) => name))).toEqual(new Set(asking))
})

test('a command, an argument and an option of the program are in the reference', () => {
  const program = new Command('licensing')
  const group = program.command('plans')
  group
    .command('make')
    .description('Make a plan')
    .argument('<code>', 'its code')
    .requiredOption('--name <name>', 'its name')
    .option('--limit <number>', 'how many', '5')
  group.command('secret', { hidden: true })
  expect(reference(program)).toContain(
    [
      '### plans make',
      '',
      '`licensing plans make <code>`: Make a plan.',
      '',
      '- `<code>`: its code',
      '- `--name <name>`: its name (required)',
      '- `--limit <number>`: how many (default: 5)',
    ].join('\n'),
  )
  expect(reference(program)).not.toContain('secret')
})
