import { useState } from 'react'
import { useApplication } from '../../api/applications.ts'
import { api } from '../../api/client.ts'
import type { EntitlementDefinition, Plan } from '../../api/plans.ts'
import { useSession } from '../../api/session.ts'
import { Box, Section } from '../../parts/page.tsx'
import { Button } from '../../parts/button.tsx'
import { SelectField, TextField } from '../../parts/fields.tsx'
import { Form } from '../../parts/form.tsx'
import { Status } from '../../parts/text.tsx'
import styles from './plan.module.css'

interface PlanValuesProps {
  plan: Plan
  definitions: readonly EntitlementDefinition[]
}

/** Unsaved values by the key of the entitlement. Null restores the default. */
type Changes = Readonly<Record<string, string | null>>

/** A field for each entitlement: the plan's own value, or the default. */
export function PlanValues({ plan, definitions }: PlanValuesProps) {
  const { appId } = useApplication()
  const { can } = useSession()
  const [changes, setChanges] = useState<Changes>({})
  const [isSaved, setSaved] = useState(false)
  const held = new Map(plan.entitlements.map((entry) => [entry.entitlement_def_id, entry.value]))
  const valueOf = ({ id, key }: EntitlementDefinition) =>
    changes[key] === undefined ? (held.get(id) ?? null) : changes[key]
  const change = (key: string, value: string | null) => {
    setChanges((before) => ({ ...before, [key]: value }))
    setSaved(false)
  }
  const overrides = definitions.flatMap((definition) => {
    const value = valueOf(definition)
    return value === null ? [] : [{ key: definition.key, value: value.trim() }]
  })
  const fields = definitions.map((definition) => (
    <ValueField
      key={definition.id}
      definition={definition}
      value={valueOf(definition)}
      isReadOnly={!can('admin')}
      onChange={(value) => change(definition.key, value)}
    />
  ))
  return (
    <Section title="Entitlements">
      <Box>
        {definitions.length === 0 && (
          <p>The application has no entitlements yet. Define them under “Plans”.</p>
        )}
        {!can('admin') && fields}
        {can('admin') && definitions.length > 0 && (
          <Form
            submit="Save"
            actions={<span>{isSaved ? 'Saved' : ''}</span>}
            // An error names an override by its index in the sent list.
            fieldOf={(pointer) => {
              const place = /^\/entitlements\/(\d+)/.exec(pointer)?.[1]
              return place && overrides[Number(place)]?.key
            }}
            run={async () => {
              await api.patch('/v1/apps/{app_id}/plans/{plan_id}', {
                path: { app_id: appId, plan_id: plan.id },
                body: { entitlements: overrides },
              })
              setSaved(true)
            }}
          >
            {fields}
          </Form>
        )}
      </Box>
      <p className={styles.note}>
        A change applies to licences that are issued later. Existing licences keep their values.
      </p>
    </Section>
  )
}

interface ValueFieldProps {
  definition: EntitlementDefinition
  value: string | null
  isReadOnly: boolean
  onChange: (value: string | null) => void
}

function ValueField({ definition, value, isReadOnly, onChange }: ValueFieldProps) {
  const { display_name: label, kind, key } = definition
  const isDefault = value === null
  const shown = value ?? definition.default
  const hint = (
    <span className={styles.mark}>
      <Status of={isDefault ? 'default' : 'override'} />
      <code>{key}</code>
      {!isDefault && <span>default: {definition.default}</span>}
      {!isDefault && !isReadOnly && (
        <Button kind="quiet" onClick={() => onChange(null)}>
          Use default<span className="visually-hidden"> for {label}</span>
        </Button>
      )}
    </span>
  )
  if (kind === 'limit') {
    return (
      <TextField
        label={label}
        name={key}
        hint={hint}
        inputMode="numeric"
        value={shown}
        readOnly={isReadOnly}
        onChange={({ target }) => onChange(target.value)}
      />
    )
  }
  return (
    <SelectField
      label={label}
      name={key}
      hint={hint}
      value={shown}
      disabled={isReadOnly}
      onChange={({ target }) => onChange(target.value)}
    >
      <option value="true">true</option>
      <option value="false">false</option>
    </SelectField>
  )
}
