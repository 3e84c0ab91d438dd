import type { ComponentProps } from 'react'
import styles from './button.module.css'

interface ButtonProps extends ComponentProps<'button'> {
  kind?: 'primary' | 'danger' | 'plain' | 'quiet'
  /** Whether its action removes something, or stops licences or deliveries of customers. */
  isDestructive?: boolean
  /** The call that the button started has not ended. */
  busy?: boolean
}

/** A button keeps its name and the focus while it is busy or cannot be used. */
export function Button({
  kind = 'plain',
  isDestructive = false,
  busy,
  disabled,
  onClick,
  className = '',
  ...rest
}: ButtonProps) {
  const inert = busy || disabled
  return (
    <button
      type="button"
      className={`${styles.button} ${styles[kind]} ${isDestructive ? styles.destructive : ''} ${className}`}
      aria-disabled={inert || undefined}
      aria-busy={busy || undefined}
      onClick={(event) => {
        if (inert) event.preventDefault()
        else onClick?.(event)
      }}
      {...rest}
    />
  )
}
