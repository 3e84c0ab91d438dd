import type { Sent } from '../outcome.ts'
import { acknowledged, text, type Action } from './client.ts'

/** The code of the plan that offers trials. */
export const trialPlanCode = 'trial'

const product = { host: 'app.example.com', product_version: '1.0' }

const activationOf = (sent: Sent) => ({
  id: text(sent, 'activation_id'),
  token: text(sent, 'token'),
  licenceId: text(sent, 'licence_id'),
})

/** Activates a licence on a machine. Several machines race for its activations. */
export const activate: Action = async ({ shop, random, unique, send }) => {
  const licence = random.pick(shop.licences.slice(-20))
  if (licence === undefined) return
  const once = async (fingerprint: string) => {
    const replaces = random.chance(0.1)
    const replace = replaces ? { replace: 'oldest' } : {}
    const body = { licence_key: licence.key, fingerprint, ...product, ...replace }
    const asked = { do: 'activate', licenceId: licence.id, fingerprint, replaces } as const
    const sent = await send(asked, 'POST /v1/activations', body, { apiKey: null })
    if (acknowledged(sent)) shop.activations.push(activationOf(sent))
  }
  await Promise.all(Array.from({ length: random.between(1, 2) }, () => once(`machine-${unique()}`)))
}

// Few enough that most machines ask for a trial more than once.
const machines = 80

/** Starts the trial of a machine, or asks for it again, several times at once. */
export const tryOut: Action = async ({ app, shop, random, send }) => {
  const fingerprint = `trial-machine-${random.between(1, machines)}`
  const body = { plan_code: trialPlanCode, fingerprint, ...product }
  const once = async () => {
    const sent = await send({ do: 'try', appId: shop.appId, fingerprint }, `POST ${app}/trials`, body, {
      apiKey: null,
    })
    if (acknowledged(sent)) shop.activations.push(activationOf(sent))
  }
  await Promise.all(Array.from({ length: random.between(1, 3) }, once))
}

/** Calls of an installed product with its activation. It frees the activation only once. */
export const useActivation: Action = async ({ shop, random, send }) => {
  const activation = random.pick(shop.activations.slice(-30))
  if (activation === undefined) return
  const what = random.weighted({ refresh: 4, 'call home': 4, release: 1, free: 1 })
  const { id: activationId, token } = activation
  if (what === 'free') shop.activations = shop.activations.filter(({ id }) => id !== activationId)
  const path = `/v1/activations/${activationId}` as const
  const route =
    what === 'free' ? (`DELETE ${path}` as const) : (`POST ${path}/${what.replace(' ', '-')}` as const)
  const body = what === 'refresh' || what === 'call home' ? product : undefined
  await send({ do: what, activationId }, route, body, { apiKey: token })
}

/** A customer opens a link and removes the machines of a licence, several at once. */
export const removeMachines: Action = async ({ shop, random, send }) => {
  const licenceId = random.pick(shop.activations.slice(-30))?.licenceId
  if (licenceId === undefined) return
  const path = `/v1/licences/${licenceId}/customer-sessions` as const
  const link = await send({ do: 'read', path }, `POST ${path}`)
  if (!acknowledged(link)) return
  const apiKey = text(link, 'url').split('#')[1]!
  const machines = shop.activations.filter((each) => each.licenceId === licenceId)
  await Promise.all(
    machines.map(({ id: activationId }) =>
      send(
        { do: 'remove', activationId, licenceId },
        `DELETE /v1/customer/activations/${activationId}`,
        undefined,
        { apiKey },
      ),
    ),
  )
}
