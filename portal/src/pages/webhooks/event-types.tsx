import { webhookEventTypes } from '@licensing/sdk/webhooks'
import { useState } from 'react'
import { CheckboxField } from '../../parts/fields.tsx'
import styles from './webhooks.module.css'

interface EventTypesProps {
  /** `*`, or types separated by commas; empty if none is chosen. */
  events: string
  onChange: (events: string) => void
}

/** The event types of an endpoint: all, or a checkbox for each type. */
export function EventTypes({ events, onChange }: EventTypesProps) {
  const [isAll, setAll] = useState(events === '*')
  const types = events === '' || events === '*' ? [] : events.split(',')
  const choose = (type: string, isChosen: boolean) => {
    if (isChosen) setAll(false)
    onChange((isChosen ? [...types, type] : types.filter((one) => one !== type)).join(','))
  }
  return (
    <fieldset className={styles.types}>
      <legend>Events</legend>
      <CheckboxField
        label="All events"
        name="subscribed_events"
        value="*"
        checked={isAll}
        onChange={({ target }) => {
          setAll(target.checked)
          onChange(target.checked ? '*' : '')
        }}
      />
      <div className={styles.columns}>
        {webhookEventTypes.map((type) => (
          <CheckboxField
            key={type}
            label={type}
            name="subscribed_events"
            value={type}
            checked={types.includes(type)}
            onChange={({ target }) => choose(type, target.checked)}
          />
        ))}
      </div>
    </fieldset>
  )
}
