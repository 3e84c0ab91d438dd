import { useEffect, useRef, useState } from 'react'
import { call, type Licence, type Machine } from './api.ts'
import { Alert, dateText, problemText, Region, type WithSession } from './parts.tsx'
import type { Texts } from './texts/en.ts'

interface Props {
  licence: Licence
  texts: Texts
  withSession: WithSession
  reload: () => Promise<void>
}

export function Machines({ licence, texts, withSession, reload }: Props) {
  const words = texts.machines
  const [asked, setAsked] = useState<Machine | null>(null)
  const [removed, setRemoved] = useState<string | null>(null)
  const heading = useRef<HTMLDivElement>(null)
  const { activations, activations_total: count, max_activations: max, frees_left: left } = licence
  const remove = async (machine: Machine) => {
    await withSession((token) => call('DELETE', `/v1/customer/activations/${machine.id}`, { token }))
    setAsked(null)
    setRemoved(machine.host)
    await reload()
    // Its button is gone.
    heading.current?.focus()
  }
  return (
    <Region id="machines" title={words.title}>
      <div ref={heading} tabIndex={-1} className="figures">
        <strong>{words.inUse(count, max)}</strong>
        {licence.max_concurrent !== null && (
          <span>{words.running(licence.leases_in_use, licence.max_concurrent)}</span>
        )}
      </div>
      <p role="status">{removed !== null && words.removed(removed)}</p>
      <table aria-labelledby="machines">
        <thead>
          <tr>
            <th scope="col">{words.columns.name}</th>
            <th scope="col">{words.columns.version}</th>
            <th scope="col">{words.columns.added}</th>
            <th scope="col">{words.columns.seen}</th>
            <th scope="col">
              <span className="visually-hidden">{words.columns.action}</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {activations.map((machine) => (
            <tr key={machine.id}>
              <th scope="row" id={machine.id}>
                {machine.host}
              </th>
              <td data-label={words.columns.version}>{machine.product_version}</td>
              <td data-label={words.columns.added}>{dateText(machine.created_at, texts, 'medium')}</td>
              <td data-label={words.columns.seen}>{dateText(machine.last_seen_at, texts, 'medium')}</td>
              <td>
                <button
                  type="button"
                  className="quiet"
                  aria-describedby={machine.id}
                  onClick={() => {
                    setRemoved(null)
                    setAsked(machine)
                  }}
                >
                  {words.remove}
                </button>
              </td>
            </tr>
          ))}
        </tbody>
      </table>
      {count === 0 && <p>{words.none}</p>}
      {count > activations.length && <p>{words.newest(activations.length, count)}</p>}
      {count > 0 && <p className="hint">{left > 0 ? words.left(left) : words.nothingLeft}</p>}
      {asked && (
        <Question
          key={asked.id}
          machine={asked}
          texts={texts}
          remove={() => remove(asked)}
          close={(isGone) => {
            setAsked(null)
            if (isGone) void reload()
          }}
        />
      )}
    </Region>
  )
}

interface QuestionProps {
  machine: Machine
  texts: Texts
  remove: () => Promise<void>
  /** @param isGone the machine was removed elsewhere */
  close: (isGone: boolean) => void
}

/** A closed dialog gives the focus back to the button that opened it. */
function Question({ machine, texts, remove, close }: QuestionProps) {
  const words = texts.machines
  const [isBusy, setBusy] = useState(false)
  const [problem, setProblem] = useState<unknown>(null)
  const dialog = useRef<HTMLDialogElement>(null)
  useEffect(() => dialog.current?.showModal(), [])
  const isGone = problemText(problem, texts, { not_found: 'gone' }) === 'gone'
  const answer = async () => {
    setBusy(true)
    setProblem(null)
    try {
      await remove()
    } catch (error) {
      setProblem(error)
      setBusy(false)
    }
  }
  return (
    <dialog
      role="alertdialog"
      aria-labelledby="question"
      aria-describedby="effect"
      ref={dialog}
      onCancel={(event) => isBusy && event.preventDefault()}
      onClose={() => close(isGone)}
    >
      <h2 id="question">{words.question(machine.host)}</h2>
      <p id="effect">{words.effect}</p>
      {problem !== null && (
        <Alert>
          {problemText(problem, texts, {
            not_found: texts.problems.gone,
            conflict: texts.problems.hasFile,
            quota_exceeded: texts.problems.noFreesLeft,
          })}
        </Alert>
      )}
      <div className="buttons">
        <button type="button" className="quiet" disabled={isBusy} onClick={() => dialog.current?.close()}>
          {texts.cancel}
        </button>
        <button type="button" disabled={isBusy || isGone} onClick={() => void answer()}>
          {words.remove}
        </button>
      </div>
    </dialog>
  )
}
