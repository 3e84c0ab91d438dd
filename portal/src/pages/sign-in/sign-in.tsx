import { signIn } from '../../api/session.ts'
import { TextField } from '../../parts/fields.tsx'
import { Form } from '../../parts/form.tsx'
import { useTitle } from '../../parts/page.tsx'
import styles from './sign-in.module.css'

/** Stands in the place of the page that was asked for: the address stays, and that page comes after it. */
export function SignIn() {
  useTitle('Sign in')
  return (
    <main className={styles.page}>
      <div className={styles.card}>
        <h1>Sign in</h1>
        <p className={styles.lead}>Sign in to the licensing portal with an API key of your account.</p>
        <Form submit="Sign in" isSecret run={(values) => signIn(values.text('key'))}>
          <TextField
            label="API key"
            name="key"
            className={styles.key}
            required
            hint={
              <>
                It starts with <code>lsk_</code>. What the key may do, you may do here.
              </>
            }
          />
        </Form>
      </div>
    </main>
  )
}
