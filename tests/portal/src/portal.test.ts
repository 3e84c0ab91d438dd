import { afterAll, afterEach, beforeAll, describe } from 'vitest'
import { asTextTests } from './as-text.ts'
import { everyPageTests } from './every-page.ts'
import { gettingStartedTests } from './getting-started.ts'
import { importTests } from './import.ts'
import { keyboardTests } from './keyboard.ts'
import { licencesTests } from './licences.ts'
import { overviewTests } from './overview.ts'
import { paymentsTests } from './payments.ts'
import { plansTests } from './plans.ts'
import { processorTests } from './processor.ts'
import { readAgainTests } from './read-again.ts'
import { referenceTests } from './reference.ts'
import { settingsTests } from './settings.ts'
import { signInTests } from './sign-in.ts'
import { webhooksTests } from './webhooks.ts'
import { chromium } from './window.ts'
import { startWorld, type World } from './world.ts'

if (!chromium) {
  process.stdout.write(
    'portal: no Chromium at /usr/bin/chromium nor in CHROMIUM, so its tests are skipped; Debian has the package chromium\n',
  )
}

// One file: all of it shares one stack and one browser.
describe.skipIf(!chromium)('the portal', () => {
  let world: World
  beforeAll(async () => {
    world = await startWorld()
  })
  afterEach(() => world.receiver.answerWith({}))
  afterAll(() => world[Symbol.asyncDispose]())

  describe('sign-in', () => {
    signInTests(() => world)
  })
  describe('getting started', () => {
    gettingStartedTests(() => world)
  })
  describe('overview', () => {
    overviewTests(() => world)
  })
  describe('licences', () => {
    licencesTests(() => world)
  })
  describe('plans', () => {
    plansTests(() => world)
  })
  describe('webhooks', () => {
    webhooksTests(() => world)
  })
  describe('import', () => {
    importTests(() => world)
  })
  describe('payments', () => {
    paymentsTests(() => world)
  })
  describe('settings', () => {
    settingsTests(() => world)
  })
  describe('processor', () => {
    processorTests(() => world)
  })
  describe('what others chose', () => {
    asTextTests(() => world)
  })
  describe('keyboard', () => {
    keyboardTests(() => world)
  })
  describe('read again', () => {
    readAgainTests(() => world)
  })
  describe('the API reference', () => {
    referenceTests(() => world)
  })
  describe('every page', () => {
    everyPageTests(() => world)
  })
})
