import { hashOf } from '../../trials.ts'
import { appId } from '../maker.ts'
import { did, first, licence, remove, repeat, type Sabotage } from './sabotage.ts'

export const licenceSabotages: Sabotage[] = [
  {
    what: 'a lost licence',
    change: ({ licences }) => remove(licences, ({ id }) => id === 'lic_2'),
    rule: 'each issue made the licence that was answered',
  },
  {
    what: 'a second licence of one idempotency key',
    change: ({ licences }) => repeat(licences, ({ id }) => id === 'lic_2', { id: 'lic_twin' }),
    rule: 'each issue made the licence that was answered',
  },
  {
    what: 'a licence other than the answered one',
    change: (outcome) => void (licence(outcome, 'lic_2').id = 'lic_other'),
    rule: 'each issue made the licence that was answered',
  },
  {
    what: 'a licence on another plan than requested',
    change: (outcome) => void (licence(outcome, 'lic_2').planId = 'pln_other'),
    rule: 'each issue made the licence that was answered',
  },
  {
    what: 'a refused issue that happened',
    change: ({ licences }) =>
      repeat(licences, ({ id }) => id === 'lic_2', { id: 'lic_no', idempotencyKey: 'issue-3' }),
    rule: 'each issue made the licence that was answered',
  },
  {
    what: 'an issue answered twice with different licences',
    change: ({ sent }) => repeat(sent, did('issue'), { body: { id: 'lic_3' } }),
    rule: 'each issue made the licence that was answered',
  },
  {
    what: 'a lost import',
    change: ({ licences }) => remove(licences, ({ legacyKey }) => legacyKey === 'a'),
    rule: 'each import made the licence that was answered',
  },
  {
    what: 'an item that failed and was imported',
    change: ({ licences }) =>
      repeat(licences, ({ legacyKey }) => legacyKey === 'a', { id: 'lic_b', legacyKey: 'b' }),
    rule: 'each import made the licence that was answered',
  },
  {
    what: 'an import that was answered as created twice',
    change: ({ sent }) => repeat(sent, did('import')),
    rule: 'each import made the licence that was answered',
  },
  {
    what: 'a licence that nobody asked for',
    change: ({ licences }) =>
      repeat(licences, ({ id }) => id === 'lic_2', { id: 'lic_x', idempotencyKey: 'issue-99' }),
    rule: 'every licence was requested',
  },
  {
    what: 'a paid licence without a payment',
    change: ({ provisions }) => remove(provisions, ({ paymentRef }) => paymentRef === 'sale:sale-1'),
    rule: 'every licence was requested',
  },
  {
    what: 'a lost activation',
    change: ({ activations }) => remove(activations, ({ id }) => id === 'act_one'),
    rule: 'activations match the answers',
  },
  {
    what: 'a freed activation that exists again',
    change: ({ activations }) =>
      void activations.push({
        id: 'act_freed',
        licenceId: 'lic_2',
        fingerprint: 'freed',
        deactivated: false,
      }),
    rule: 'activations match the answers',
  },
  {
    what: 'more activations than the licence allows',
    change: (outcome) => void (licence(outcome, 'lic_1').maxActivations = 1),
    rule: 'activations match the answers',
  },
  {
    what: 'a refused activation that happened',
    change: ({ activations }) =>
      void activations.push({ id: 'act_x', licenceId: 'lic_1', fingerprint: 'three', deactivated: false }),
    rule: 'activations match the answers',
  },
  {
    what: 'six replaced activations on one day',
    change: ({ history }) => {
      for (let count = 0; count < 5; count += 1) {
        repeat(history, ({ cause }) => cause === 'act_replaced', { cause: `act_replaced_${count}` })
      }
    },
    rule: 'activations match the answers',
  },
  {
    what: 'a replaced activation that no product asked to replace',
    change: ({ sent }) => remove(sent, ({ asked }) => asked.do === 'activate' && asked.replaces),
    rule: 'activations match the answers',
  },
  {
    what: 'more leases in the database than the licence allows',
    change: ({ leases }) => void (leases[0]!.running = 2),
    rule: 'leases that have not ended never exceed max_concurrent',
  },
  {
    what: 'more leases in the answers than the licence allows',
    change: ({ sent }) => remove(sent, did('release')),
    rule: 'leases that have not ended never exceed max_concurrent',
  },
  {
    what: 'a lease of a replaced activation that was extended',
    change: ({ history }) => void (first(history, ({ cause }) => cause === 'act_replaced').at += 60_000),
    rule: 'leases that have not ended never exceed max_concurrent',
  },
  {
    what: 'a lost trial',
    change: ({ trials }) => void trials.pop(),
    rule: 'a machine has one trial of an application',
  },
  {
    what: 'a second licence of a machine on trial',
    change: ({ sent }) => repeat(sent, did('try'), { body: { licence_id: 'lic_2' }, status: 200 }),
    rule: 'a machine has one trial of an application',
  },
  {
    what: 'a trial that was started twice',
    change: ({ sent }) => repeat(sent, did('try')),
    rule: 'a machine has one trial of an application',
  },
  {
    what: 'a refused trial that happened',
    change: ({ trials }) =>
      void trials.push({ appId, fingerprintHash: hashOf(appId, 'refused'), licenceId: 'lic_2' }),
    rule: 'a machine has one trial of an application',
  },
  {
    what: 'a trial that no machine asked for',
    change: ({ trials }) =>
      void trials.push({ appId, fingerprintHash: hashOf(appId, 'silent'), licenceId: 'lic_2' }),
    rule: 'a machine has one trial of an application',
  },
  {
    what: 'a trial of two machines',
    change: ({ trials }) => repeat(trials, () => true, { fingerprintHash: hashOf(appId, 'other') }),
    rule: 'a machine has one trial of an application',
  },
  {
    what: 'a licence on trial of no machine',
    change: ({ licences }) => repeat(licences, () => true, { id: 'lic_x', externalRef: 'trial_lic_x' }),
    rule: 'a machine has one trial of an application',
  },
  {
    what: 'a row that a walk through the list misses',
    change: ({ walks }) => void walks[0]!.ids.shift(),
    rule: 'a list shows each row once',
  },
  {
    what: 'a row that a walk through the list shows twice',
    change: ({ walks }) => void walks[0]!.ids.push('lic_1'),
    rule: 'a list shows each row once',
  },
  {
    what: 'an active licence on a retired plan',
    change: (outcome) => void (licence(outcome, 'lic_2').planId = 'pln_2'),
    rule: 'no licence is active on a retired plan',
  },
  {
    what: 'a licence past its end that is active',
    change: (outcome) => void (licence(outcome, 'lic_2').expiresOn = 1),
    rule: 'licences past their end are expired',
  },
  {
    what: 'a revocation that is missing from the list',
    change: ({ revocations }) => void revocations.pop(),
    rule: 'the revocation list is complete',
  },
  {
    what: 'a gap in the versions of the revocation list',
    change: ({ revocations }) => void (revocations.at(-1)!.version += 1),
    rule: 'the revocation list is complete',
  },
]
