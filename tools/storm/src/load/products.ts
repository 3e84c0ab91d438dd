import { acknowledged, text, type Action } from './client.ts'

/** The code of the plan that offers trials. */
export const trialPlanCode = 'trial'

const product = { host: 'app.example.com', product_version: '1.0' }

/** Activates a licence on a machine. Several machines race for its activations. */
export const activate: Action = async (client) => {
  const { shop, random } = client
  const licence = random.pick(shop.licences.slice(-20))
  if (licence === undefined) return
  const once = async (fingerprint: string) => {
    const replaces = random.chance(0.1)
    const sent = await client.send(
      { do: 'activate', licenceId: licence.id, fingerprint, replaces },
      'POST',
      '/v1/activations',
      {
        apiKey: null,
        body: {
          licence_key: licence.key,
          fingerprint,
          ...product,
          ...(replaces && { replace: 'oldest' }),
        },
      },
    )
    if (!acknowledged(sent)) return
    const id = text(sent, 'activation_id')
    shop.activations.push({ id, token: text(sent, 'token'), licenceId: licence.id })
  }
  await Promise.all(Array.from({ length: random.between(1, 2) }, () => once(`machine-${client.unique()}`)))
}

// Few enough that most machines ask for a trial more than once.
const machines = 80

/** Starts the trial of a machine, or asks for it again, several times at once. */
export const tryOut: Action = async (client) => {
  const { shop, random } = client
  const fingerprint = `trial-machine-${random.between(1, machines)}`
  const once = async () => {
    const sent = await client.send(
      { do: 'try', appId: shop.appId, fingerprint },
      'POST',
      `/v1/apps/${shop.appId}/trials`,
      { apiKey: null, body: { plan_code: trialPlanCode, fingerprint, ...product } },
    )
    if (!acknowledged(sent)) return
    const [id, licenceId] = [text(sent, 'activation_id'), text(sent, 'licence_id')]
    shop.activations.push({ id, token: text(sent, 'token'), licenceId })
  }
  await Promise.all(Array.from({ length: random.between(1, 3) }, once))
}

/** Calls of an installed product with its activation. It frees the activation only once. */
export const useActivation: Action = async (client) => {
  const { shop, random } = client
  const activation = random.pick(shop.activations.slice(-30))
  if (activation === undefined) return
  const what = random.weighted({ refresh: 4, 'call home': 4, release: 1, free: 1 })
  const { id: activationId, token } = activation
  const path = `/v1/activations/${activationId}`
  const extra = { apiKey: token }
  if (what === 'free') {
    shop.activations = shop.activations.filter(({ id }) => id !== activationId)
    await client.send({ do: 'free', activationId }, 'DELETE', path, extra)
    return
  }
  if (what === 'release') {
    await client.send({ do: 'release', activationId }, 'POST', `${path}/release`, extra)
    return
  }
  const end = what === 'refresh' ? 'refresh' : 'call-home'
  await client.send({ do: what, activationId }, 'POST', `${path}/${end}`, { ...extra, body: product })
}
