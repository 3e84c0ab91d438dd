import { createHash } from 'node:crypto'
import { groupBy, sentTo, timesProblem, duplicates, type Rule } from './rule.ts'

/** The hash that licensing stores of the fingerprint of a machine that has had its trial. */
export const hashOf = (appId: string, fingerprint: string) =>
  createHash('sha256').update(`${appId} ${fingerprint}`).digest('hex')

/** Each machine has one trial of an application: the answered licence, started once. */
export const oneTrialEach: Rule = (outcome) => {
  const found = groupBy(outcome.trials, ({ appId, fingerprintHash }) => `${appId} ${fingerprintHash}`)
  const asked = groupBy(
    sentTo(outcome, 'try'),
    ({ asked: { appId, fingerprint } }) => `${appId} ${hashOf(appId, fingerprint)}`,
  )
  const wrong = [...asked].flatMap(([machine, tries]) => {
    const trials = found.get(machine) ?? []
    const acknowledged = tries.filter(({ answered }) => answered === 'acknowledged')
    const answered = acknowledged.map(({ body }) => String(body['licence_id']))
    return [
      ...timesProblem(
        `the trial of ${machine}`,
        tries.map((each) => each.answered),
        trials.length,
      ),
      ...trials.flatMap(({ licenceId }) =>
        answered
          .filter((id) => id !== licenceId)
          .map((id) => `${machine} has the trial ${licenceId} and was answered with ${id}`),
      ),
      ...(acknowledged.filter(({ status }) => status === 201).length > 1
        ? [`${machine} was answered twice that its trial has started`]
        : []),
    ]
  })
  const ids = new Set(outcome.trials.map(({ licenceId }) => licenceId))
  return [
    ...wrong,
    ...[...found.keys()].filter((machine) => !asked.has(machine)).map((machine) => `${machine} never asked`),
    ...duplicates(outcome.trials.map(({ licenceId }) => licenceId)).map(
      (id) => `${id} is the trial of two machines`,
    ),
    ...outcome.licences
      .filter(({ id, externalRef }) => externalRef === `trial_${id}` && !ids.has(id))
      .map(({ id }) => `${id} is a trial that belongs to no machine`),
  ]
}
