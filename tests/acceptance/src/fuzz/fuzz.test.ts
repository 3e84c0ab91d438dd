import { isFull } from '@licensing/test-support/drawn'
import { startHttpsReceiver } from '@licensing/test-support/https-receiver'
import { startStack } from '@licensing/test-support/stack'
import type { Stack } from '@licensing/test-support/stack-shape'
import { assert, asyncProperty, gen } from 'fast-check'
import { expect, test } from 'vitest'
import { operationsOf, readDocument, type Operation } from '../document.ts'
import { givenVendor } from '../vendor.ts'
import { Judge } from './checks.ts'
import { asCommand, requestFor } from './requests.ts'
import { Dice } from './dice.ts'
import { nearlyHttp, problemsOfSaying, say, send } from './wire.ts'
import { World } from './world.ts'

const seconds = Number(process.env['FUZZ_SECONDS'] ?? (isFull ? 60 : 6))
const seed = Number(
  process.env['FUZZ_SEED'] ?? process.env['TEST_SEED'] ?? Math.floor(Math.random() * 2 ** 31),
)
const lanes = 4
const maxFailures = 25
const minCases = seconds * 60
const maxRounds = 8
const unlimited = '10000000'

/** Failures. For each kind it keeps the first, with its cause. */
class Findings {
  readonly kinds = new Map<string, string>()
  /** Operations that succeeded at least once. */
  readonly succeeded = new Set<string>()
  cases = 0

  add(kind: string, cause: string): void {
    if (!this.kinds.has(kind) && this.kinds.size < maxFailures) this.kinds.set(kind, `${kind}\n    ${cause}`)
  }
}

/** Runs cases for the configured time, and on a slow machine until there were enough requests. */
async function inLane(lane: number, findings: Findings, run: (dice: Dice) => Promise<void>): Promise<void> {
  for (let round = 0; round === 0 || (round < maxRounds && findings.cases < minCases); round += 1) {
    await assert(
      asyncProperty(gen(), (draw) => run(new Dice(draw))),
      {
        seed: seed + lane + round * 1_000,
        numRuns: Number.MAX_SAFE_INTEGER,
        interruptAfterTimeLimit: seconds * 1_000,
        endOnFailure: true,
      },
    )
  }
}

// Operations that delete or end an object are drawn less often, so that there are always objects to change.
const ends = /^(?:delete|revoke|retire|archive|deactivate|setSpendCap)/

function drawn(dice: Dice, operations: Operation[]): Operation {
  const operation = dice.one(operations)
  return ends.test(operation.operationId) && dice.chance(80) ? drawn(dice, operations) : operation
}

async function tryOperation(
  dice: Dice,
  operation: Operation,
  { stack, world, judge, findings }: { stack: Stack; world: World; judge: Judge; findings: Findings },
): Promise<void> {
  const request = requestFor(dice, world, operation)
  const { operationId } = operation
  const command = () => asCommand(request, stack.gatewayUrl, world)
  findings.cases += 1
  try {
    const answer = await send(stack.gatewayUrl, request)
    for (const problem of judge.problemsOf(request, answer)) {
      findings.add(`${operationId} ${problem}`, `${answer.body.slice(0, 400)}\n    ${command()}`)
    }
    if (answer.status >= 300) return
    world.learn(answer.body, request.target)
    if (request.method === operation.method) findings.succeeded.add(operationId)
  } catch (error) {
    findings.add(`${operationId} is not answered`, `${String(error)}\n    ${command()}`)
  }
}

test(
  `any request gets an answer that the OpenAPI document describes (FUZZ_SEED=${seed} FUZZ_SECONDS=${seconds})`,
  { timeout: (seconds * maxRounds + 240) * 1_000 },
  async () => {
    await using receiver = await startHttpsReceiver()
    await using stack = await startStack({
      receiver,
      simulator: true,
      environment: {
        RATE_LIMIT_PER_MINUTE: unlimited,
        PRODUCT_RATE_PER_MINUTE: unlimited,
        PRODUCT_WRONG_KEYS_PER_MINUTE: unlimited,
      },
    })
    process.stdout.write(`fuzz: FUZZ_SEED=${seed} FUZZ_SECONDS=${seconds}\n`)
    const document = await readDocument(stack.gatewayUrl)
    const operations = operationsOf(document)
    const world = await World.make(stack, receiver)
    const findings = new Findings()
    const setting = { stack, world, judge: new Judge(document), findings }
    await Promise.all([
      ...Array.from({ length: lanes }, (_, lane) =>
        inLane(lane, findings, (dice) => tryOperation(dice, drawn(dice, operations), setting)),
      ),
      inLane(lanes, findings, async (dice) => {
        const bytes = nearlyHttp(dice, stack.apiKey)
        const answered = await say(stack.gatewayUrl, bytes)
        findings.cases += 1
        for (const problem of problemsOfSaying(answered)) {
          const shown = JSON.stringify(bytes.replaceAll(stack.apiKey, '$KEY')).slice(0, 1_500)
          findings.add(
            `what is nearly HTTP ${problem} ${bytes.slice(0, 30)}`,
            `${shown}\n    ${answered.slice(0, 300)}`,
          )
        }
      }),
    ])
    const { cases, succeeded } = findings
    process.stdout.write(
      `fuzz: ${cases} requests, ${succeeded.size} of ${operations.length} operations did what they are for\n`,
    )
    expect([...findings.kinds.values()].join('\n\n'), `FUZZ_SEED=${seed}`).toBe('')
    expect(cases).toBeGreaterThanOrEqual(minCases)
    // Shows that requests pass validation and reach the code of the operations.
    const reached = seconds < 60 ? 0.75 : 0.8
    if (seconds >= 30) expect(succeeded.size).toBeGreaterThan(operations.length * reached)
    expect((await fetch(`${stack.gatewayUrl}/readyz`)).status).toBe(200)
    const vendor = await givenVendor(stack)
    expect(await vendor.issue((await vendor.plan()).id)).toMatchObject({ status: 'active' })
  },
)
