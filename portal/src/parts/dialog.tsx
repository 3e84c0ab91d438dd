import { AlertDialog } from '@base-ui/react/alert-dialog'
import { Dialog as BaseDialog } from '@base-ui/react/dialog'
import { useMutation, useQuery, type QueryKey, type UseQueryOptions } from '@tanstack/react-query'
import { createContext, use, useEffect, useLayoutEffect, useRef, useState, type ReactNode } from 'react'
import { announce } from './announce.tsx'
import { Button } from './button.tsx'
import styles from './dialog.module.css'
import { Problem } from './problem.tsx'
import { Waiting } from './text.tsx'

interface DialogProps {
  title: string
  open: boolean
  onClose: () => void
  /** It closes only by its own buttons, because its content is shown once. */
  stays?: boolean
  children: ReactNode
}

export function Dialog({ title, open, onClose, stays = false, children }: DialogProps) {
  return (
    <BaseDialog.Root
      open={open}
      onOpenChange={(next) => !next && !stays && onClose()}
      disablePointerDismissal
    >
      <BaseDialog.Portal>
        <BaseDialog.Backdrop className={styles.backdrop} />
        <BaseDialog.Popup className={styles.popup}>
          <BaseDialog.Title className={styles.title}>{title}</BaseDialog.Title>
          {children}
          {/* The close button is last, so that the first field gets the focus when the dialog opens. */}
          {!stays && (
            <BaseDialog.Close render={<Button kind="quiet" className={styles.close} />}>
              <span aria-hidden="true">✕</span>
              <span className="visually-hidden">Close</span>
            </BaseDialog.Close>
          )}
        </BaseDialog.Popup>
      </BaseDialog.Portal>
    </BaseDialog.Root>
  )
}

interface ConfirmProps {
  /** The name of the button that opens the dialog, of the dialog, and of the button that confirms. */
  action: string
  /** The text of the dialog: the effect, and whether it can be undone. */
  children: ReactNode
  run: () => Promise<unknown>
  /** Called after `run` succeeded. */
  onDone?: () => void
  kind?: 'primary' | 'danger'
  open: boolean
  onClose: () => void
}

/** Asks before it acts. If the action is refused, the dialog stays open and shows the error with advice. */
export function Confirm({ action, children, run, onDone, kind = 'danger', open, onClose }: ConfirmProps) {
  const [isKnown, setKnown] = useState(true)
  const acting = useMutation({
    mutationFn: run,
    onSuccess: () => {
      announce(`${action}: done`)
      onClose()
      onDone?.()
    },
  })
  const close = () => {
    acting.reset()
    onClose()
  }
  return (
    <AlertDialog.Root open={open} onOpenChange={(next) => !next && close()}>
      <AlertDialog.Portal>
        <AlertDialog.Backdrop className={styles.backdrop} />
        <AlertDialog.Popup className={styles.popup}>
          <AlertDialog.Title className={styles.title}>{action}</AlertDialog.Title>
          <AlertDialog.Description render={<div />}>
            <SetTextKnown value={setKnown}>{children}</SetTextKnown>
          </AlertDialog.Description>
          {acting.isError && <Problem error={acting.error} retry={() => acting.mutate()} />}
          <div className={styles.buttons}>
            <AlertDialog.Close render={<Button />}>Cancel</AlertDialog.Close>
            <Button kind={kind} busy={acting.isPending} disabled={!isKnown} onClick={() => acting.mutate()}>
              {action}
            </Button>
          </div>
        </AlertDialog.Popup>
      </AlertDialog.Portal>
    </AlertDialog.Root>
  )
}

/** Receives whether the text of the confirmation is complete. */
const SetTextKnown = createContext<(isKnown: boolean) => void>(() => undefined)

interface ReadNowProps<Data, Key extends QueryKey> {
  query: UseQueryOptions<Data, Error, Data, Key>
  children: (data: Data) => ReactNode
}

/**
 * Reads the data for the text of a confirmation when the dialog opens, because others may have changed it since the page was
 * loaded. Until it is read, the action is disabled.
 */
export function ReadNow<Data, Key extends QueryKey>({ query, children }: ReadNowProps<Data, Key>) {
  const setKnown = use(SetTextKnown)
  const { data, error, refetch, isFetchedAfterMount } = useQuery({
    ...query,
    staleTime: 0,
    refetchOnMount: 'always',
  })
  const isKnown = isFetchedAfterMount && error === null
  // Before the first paint, so that the button is never enabled without the text.
  useLayoutEffect(() => {
    setKnown(isKnown)
    return () => setKnown(true)
  }, [isKnown, setKnown])
  if (isKnown && data !== undefined) return children(data)
  if (isFetchedAfterMount && error !== null) return <Problem error={error} retry={() => void refetch()} />
  return (
    <p>
      <Waiting length="long" />
      <span className="visually-hidden">Loading…</span>
    </p>
  )
}

/** When a button disappears after its action, the heading gets the focus. */
function useFocusWhenGone(isGone: boolean): void {
  const was = useRef(isGone)
  useEffect(() => {
    const hadIt = document.activeElement === null || document.activeElement === document.body
    if (isGone && !was.current && hadIt) document.querySelector('h1')?.focus()
    was.current = isGone
  }, [isGone])
}

type ConfirmButtonProps = Omit<ConfirmProps, 'open' | 'onClose'> & {
  /** The look of the button that opens the dialog. */
  look?: 'plain' | 'quiet'
  /** A shorter text for the button: the beginning of the action. */
  short?: string
  /** Hides the button. An open dialog stays open and keeps its error. */
  hidden?: boolean
}

/** A button that asks for confirmation before its action. */
export function ConfirmButton({ look = 'plain', short, hidden = false, ...confirm }: ConfirmButtonProps) {
  const { action, kind = 'danger' } = confirm
  const shown = short ?? action
  const [open, setOpen] = useState(false)
  useFocusWhenGone(hidden)
  return (
    <>
      {!hidden && (
        <Button kind={look} isDestructive={kind === 'danger'} onClick={() => setOpen(true)}>
          {shown}
          <span className="visually-hidden">{action.slice(shown.length)}</span>
        </Button>
      )}
      <Confirm {...confirm} open={open} onClose={() => setOpen(false)} />
    </>
  )
}
