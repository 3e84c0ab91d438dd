import { did, first, licence, remove, repeat, type Sabotage } from './sabotage.ts'

export const historySabotages: Sabotage[] = [
  {
    what: 'a lost history entry',
    change: ({ history }) =>
      remove(history, ({ licenceId, type }) => licenceId === 'lic_1' && type === 'suspended'),
    rule: 'a history is one legal order',
  },
  {
    what: 'a licence whose status is not the end of its history',
    change: (outcome) => void (licence(outcome, 'lic_2').status = 'suspended'),
    rule: 'a history is one legal order',
  },
  {
    what: 'a transition that the rules do not have',
    change: ({ history }) => {
      const last = first(history, ({ licenceId, type }) => licenceId === 'lic_3' && type === 'revoked')
      history.push({ ...last, position: 1_000, type: 'reactivated', from: 'revoked', to: 'active' })
    },
    rule: 'a history is one legal order',
  },
  {
    what: 'an acknowledged verb that left no trace',
    change: ({ sent }) => {
      repeat(sent, ({ asked }) => asked.do === 'verb' && asked.verb === 'reactivate', { from: 1, to: 2 })
    },
    rule: 'a verb is in the history as it was answered',
  },
  {
    what: 'a refused verb that happened',
    change: ({ sent }) => {
      const unanswered = first(sent, ({ asked, answered }) => asked.do === 'verb' && answered === 'unknown')
      Object.assign(unanswered, { answered: 'refused', status: 409 })
    },
    rule: 'a verb is in the history as it was answered',
  },
  {
    what: 'a verb that happened twice',
    change: ({ history }) => {
      const [suspended] = history.filter(({ type }) => type === 'suspended')
      history.push({ ...suspended!, position: 1_000, at: suspended!.at + 1 })
    },
    rule: 'a verb is in the history as it was answered',
  },
  {
    what: 'a change by a key that nobody asked for',
    change: ({ history }) => {
      const issued = first(history, ({ licenceId }) => licenceId === 'lic_2')
      history.push({ ...issued, position: 1_000, type: 'retired', from: 'active', to: 'retired' })
    },
    rule: 'a verb is in the history as it was answered',
  },
  {
    what: 'an archive that suspended fewer licences than it answered',
    change: ({ sent }) => void (first(sent, did('archive')).body = { suspended_licences: 2 }),
    rule: 'an archive suspends what it says',
  },
  {
    what: 'a refused archive that suspended licences',
    change: ({ sent }) => void (first(sent, did('archive')).answered = 'refused'),
    rule: 'an archive suspends what it says',
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
    rule: 'what was answered first happened first',
  },
  {
    what: 'an answer that says another status than the verb leads to',
    change: ({ sent }) => void (first(sent, did('verb')).body = { status: 'active' }),
    rule: 'an answer says what the verb did',
  },
  {
    what: 'a refusal for a status that the licence never had',
    change: ({ sent }) => {
      first(sent, ({ asked, status }) => asked.do === 'verb' && status === 409).body = { current: 'retired' }
    },
    rule: 'a refusal names a status that was',
  },
]
