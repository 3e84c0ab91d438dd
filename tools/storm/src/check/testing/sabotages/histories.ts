import { did, first, licence, remove, repeat, type Sabotage } from './sabotage.ts'

export const historySabotages: Sabotage[] = [
  {
    what: 'a lost history entry',
    change: ({ history }) =>
      remove(history, ({ licenceId, type }) => licenceId === 'lic_1' && type === 'suspended'),
    rule: 'a history has only legal transitions',
  },
  {
    what: 'a licence whose status is not the end of its history',
    change: (outcome) => void (licence(outcome, 'lic_2').status = 'suspended'),
    rule: 'a history has only legal transitions',
  },
  {
    what: 'a transition that the rules do not have',
    change: ({ history }) => {
      const last = first(history, ({ licenceId, type }) => licenceId === 'lic_3' && type === 'revoked')
      history.push({ ...last, position: 1_000, type: 'reactivated', from: 'revoked', to: 'active' })
    },
    rule: 'a history has only legal transitions',
  },
  {
    what: 'an acknowledged verb that left no trace',
    change: ({ sent }) => {
      repeat(sent, ({ asked }) => asked.do === 'verb' && asked.verb === 'reactivate', { from: 1, to: 2 })
    },
    rule: 'the history has each acknowledged verb once',
  },
  {
    what: 'a refused verb that happened',
    change: ({ sent }) => {
      const unanswered = first(sent, ({ asked, answered }) => asked.do === 'verb' && answered === 'unknown')
      Object.assign(unanswered, { answered: 'refused', status: 409 })
    },
    rule: 'the history has each acknowledged verb once',
  },
  {
    what: 'a verb that happened twice',
    change: ({ history }) => {
      const [suspended] = history.filter(({ type }) => type === 'suspended')
      history.push({ ...suspended!, position: 1_000, at: suspended!.at + 1 })
    },
    rule: 'the history has each acknowledged verb once',
  },
  {
    what: 'a change by a key that nobody asked for',
    change: ({ history }) => {
      const issued = first(history, ({ licenceId }) => licenceId === 'lic_2')
      history.push({ ...issued, position: 1_000, type: 'retired', from: 'active', to: 'retired' })
    },
    rule: 'the history has each acknowledged verb once',
  },
  {
    what: 'an archive that suspended fewer licences than it answered',
    change: ({ sent }) => void (first(sent, did('archive')).body = { suspended_licences: 2 }),
    rule: 'an archive suspends as many licences as it answered',
  },
  {
    what: 'a refused archive that suspended licences',
    change: ({ sent }) => void (first(sent, did('archive')).answered = 'refused'),
    rule: 'an archive suspends as many licences as it answered',
  },
  {
    what: 'two changes in the wrong order',
    change: ({ history }) => {
      const suspended = first(history, ({ type }) => type === 'suspended')
      const reactivated = first(history, ({ type }) => type === 'reactivated')
      const { position } = suspended
      suspended.position = reactivated.position
      reactivated.position = position
    },
    rule: 'changes are in the order of their answers',
  },
  {
    what: 'an answer with another status than the verb leads to',
    change: ({ sent }) => void (first(sent, did('verb')).body = { status: 'active' }),
    rule: 'an answer has the status that the verb leads to',
  },
  {
    what: 'a refusal for a status that the licence never had',
    change: ({ sent }) => {
      first(sent, ({ asked, status }) => asked.do === 'verb' && status === 409).body = { current: 'retired' }
    },
    rule: 'a refusal names a status that the licence had',
  },
]
