import { test } from 'vitest'
import { underLoad } from './replace-replicas.ts'

test('every replica is restarted in turn under load: no request fails, no event is lost or out of order', () =>
  underLoad(undefined, (_stack, replaceAll) => replaceAll((process) => process.start())))
