import type { ConfirmationSender } from '../src/accounts/alert-email.ts'

interface Sent {
  accountId: string
  address: string
  token: string
}

type AnswerMail = (request: Sent) => { retryAfterSeconds: number } | Promise<{ retryAfterSeconds: number }>

const accept: AnswerMail = () => ({ retryAfterSeconds: 0 })

export type NotifierStub = ReturnType<typeof notifierStub>

/** The RPC of the notifier that catalog calls. It sends each mail unless a test chooses another answer. */
export function notifierStub() {
  const sent: Sent[] = []
  let answer = accept
  return {
    async sendConfirmation(request: Sent) {
      const { retryAfterSeconds } = await answer(request)
      if (retryAfterSeconds === 0) sent.push(request)
      return { $typeName: 'notifier.v1.SendConfirmationResponse' as const, retryAfterSeconds }
    },
    /** The mails to an account, in order. */
    sentTo: (accountId: string) => sent.filter((mail) => mail.accountId === accountId),
    answerWith: (given: AnswerMail) => void (answer = given),
    /** Sends each mail again. */
    recover: () => void (answer = accept),
  } satisfies ConfirmationSender & Record<string, unknown>
}
