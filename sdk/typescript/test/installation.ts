import { fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import type { LicenceClientOptions } from '../src/product/client.ts'
import type { LicenceState } from '../src/product/state.ts'
import type { Order } from './installation-process.ts'

interface Message {
  readonly id?: number
  readonly answer?: unknown
  readonly error?: string
  readonly held?: true
}

/** A product in its own process: `installation-process.ts`, which a test controls. */
export class InstallationProcess implements AsyncDisposable {
  readonly #child = fork(join(import.meta.dirname, 'installation-process.ts'), { stdio: 'inherit' })
  readonly #ended = once(this.#child, 'exit')
  #orders = 0

  static async start(): Promise<InstallationProcess> {
    const started = new InstallationProcess()
    await once(started.#child, 'message')
    return started
  }

  static async open(
    file: string,
    options: Omit<LicenceClientOptions, 'store'>,
  ): Promise<InstallationProcess> {
    const process = await InstallationProcess.start()
    await process.ask({ open: { file, options } })
    return process
  }

  async ask<T = unknown>(order: Order): Promise<T> {
    const id = this.#orders++
    const { promise, resolve, reject } = Promise.withResolvers<T>()
    const hear = ({ id: of, answer, error }: Message) => {
      if (of !== id) return
      this.#child.off('message', hear)
      if (error === undefined) resolve(answer as T)
      else reject(new Error(error))
    }
    this.#child.on('message', hear)
    void this.#ended.then(() => reject(new Error('the process has ended')))
    this.#child.send({ id, order })
    return promise
  }

  call(name: Extract<Order, { call: unknown }>['call']): Promise<LicenceState> {
    return this.ask({ call: name })
  }

  /** Begins a call, and resolves when its save has read the store and not yet written. `end` lets it write. */
  async begin(name: Extract<Order, { call: unknown }>['call']): Promise<{ end(): Promise<LicenceState> }> {
    await this.ask({ hold: true })
    const held = new Promise<void>((resolve) => {
      const hear = (message: Message) => {
        if (!message.held) return
        this.#child.off('message', hear)
        resolve()
      }
      this.#child.on('message', hear)
    })
    const outcome = this.call(name)
    await held
    return {
      end: async () => {
        await this.ask({ release: true })
        return outcome
      },
    }
  }

  /** Resolves when the process has ended, to the signal that ended it. */
  async ended(): Promise<unknown> {
    const [, signal] = (await this.#ended) as [unknown, unknown]
    return signal
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#child.exitCode === null && this.#child.signalCode === null) this.#child.kill('SIGKILL')
    await this.#ended
  }
}
