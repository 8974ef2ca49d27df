/** The session's rules as a table: every phase and command, what is decided (events, rows, answer); and the
 *  fold. */
import { describe, expect, it } from "vitest"
import {
  connectWithinMs,
  resumableMs,
  sessionMsMax,
  VoiceSession,
  VoiceTokens
} from "../../actors/voice-session.ts"
import type { Utterance, VoiceConfig } from "../../actors/voice/session-types.ts"

const { on, evolve, expiresAt, endsIn } = VoiceSession

const config: VoiceConfig = {
  accountId: "acc",
  keyId: "key",
  contentType: "audio/auto",
  format: "json",
  sourceLanguage: "en",
  fixed: true,
  targets: ["de"],
  mediaTargets: [],
  mediaType: "audio/webm",
  voice: null,
  formality: "default",
  tag: null
}

type Live = Parameters<typeof on.Live.Connect>[0]
type State = Live | { readonly _tag: "Absent" } | { readonly _tag: "Ended" }
const initial: State = { _tag: "Absent" }
type Command = keyof typeof on.Live
type Step = readonly [command: Command, payload: Record<string, unknown>, nowMs: number]
const atMs = 1_000

const spoken = (n: number): Utterance => ({
  text: `s${n}`,
  startMs: n * 100,
  endMs: n * 100 + 90,
  language: "en"
})

const said = (n: number, to = "") => ({ to, spoken: spoken(n) })

const decide = (state: State, [command, payload, nowMs]: Step) =>
  (on as any)[state._tag][command](state, payload, { id: "session", nowMs, newId: () => "" })

const fold = (state: State, events: ReadonlyArray<{ readonly _tag: string }>): State =>
  events.reduce<State>((now, event) => (evolve as any)[event._tag](now, event) as State, state)

const after = (...steps: ReadonlyArray<Step>): Live =>
  steps.reduce<State>((state, step) => fold(state, decide(state, step).events), initial) as Live

const create: Step = ["Create", { config, token: "t1" }, atMs]
const connect: Step = ["Connect", { token: "t1" }, 2_000]
const disconnect: Step = ["Disconnect", { token: "t1" }, 5_000]
const renew = (presented: string, token: string, nowMs: number): Step => [
  "Renew",
  { presented, token },
  nowMs
]
const conclude = (n: number): Step => ["Conclude", { utterance: spoken(n) }, 3_000]
const created = after(create)
const connected = after(create, connect)
const parted = after(create, connect, disconnect)
const renewed = after(create, connect, disconnect, renew("t1", "t2", 6_000))

const row = (token: string, state: "fresh" | "used" | "outdated", issuedMs: number) =>
  VoiceTokens.put([token], { sessionId: "session", accountId: "acc", state, issuedMs })

const sessionGone = { refuse: { _tag: "SessionGone" } }
const tokenMisused = { refuse: { _tag: "TokenMisused" } }
const done = { reply: undefined }
const ended = [{ _tag: "Ended" }]
const commands = Object.keys(on.Live) as ReadonlyArray<Command>

describe.each(["Absent", "Ended"] as const)("%s", (phase) => {
  const state = { _tag: phase } as State
  it.each<[Command, unknown]>([
    ["Connect", sessionGone],
    ["Renew", sessionGone],
    ["Deliver", { reply: { undelivered: [], finished: false } }],
    ...(
      ["Disconnect", "Conclude", "Translate", "Restore", "EndSource", "Finish", "End", "Expire"] as const
    ).map((command): [Command, unknown] => [command, done])
  ])("%s keeps nothing", (command, answer) => {
    expect(
      decide(state, [
        command,
        { token: "t", presented: "t", utterance: spoken(1), translated: [], undelivered: [] },
        atMs
      ])
    ).toMatchObject({ events: [], rows: [], answer })
  })
  it(
    phase === "Absent"
      ? "Create opens it, with its token's row"
      : "Create is nothing: the address is on its way out",
    () => {
      const { events, rows, answer } = decide(state, create)
      expect([events, rows, answer]).toEqual(
        phase === "Absent"
          ? [[{ _tag: "Created", config, token: "t1", atMs }], [row("t1", "fresh", atMs)], done]
          : [[], [], done]
      )
    }
  )
  it("events that come late change nothing", () => {
    for (const event of [
      { _tag: "Connected" },
      { _tag: "Concluded", spoken: spoken(1) },
      { _tag: "Delivered" },
      { _tag: "Restored", said: [said(1)] }
    ])
      expect(fold(state, [event])).toEqual(state as unknown)
  })
})

it("every phase has a rule for every command", () => {
  for (const rules of Object.values(on)) expect(Object.keys(rules).sort()).toEqual([...commands].sort())
  expect([VoiceSession.initial, endsIn]).toEqual([initial, ["Ended"]])
})

describe("Live", () => {
  it.each<[string, Live, Step, ReadonlyArray<unknown>, ReadonlyArray<unknown>, unknown]>([
    ["Create again is nothing", created, create, [], [], done],
    [
      "Connect with its token",
      created,
      connect,
      [{ _tag: "Connected" }],
      [row("t1", "used", atMs)],
      { reply: { config, audioMs: 0, sourceEnded: false } }
    ],
    [
      "Connect at the last moment",
      created,
      ["Connect", { token: "t1" }, atMs + connectWithinMs],
      [{ _tag: "Connected" }],
      [row("t1", "used", atMs)],
      { reply: { config, audioMs: 0, sourceEnded: false } }
    ],
    [
      "Connect a moment later",
      created,
      ["Connect", { token: "t1" }, atMs + connectWithinMs + 1],
      [],
      [],
      sessionGone
    ],
    [
      "Connect with another's token ends it",
      created,
      ["Connect", { token: "x" }, 2_000],
      ended,
      [VoiceTokens.delete(["t1"])],
      tokenMisused
    ],
    [
      "Connect twice with one token ends it",
      connected,
      connect,
      ended,
      [VoiceTokens.delete(["t1"])],
      tokenMisused
    ],
    [
      "Connect with an outdated token ends it, and every token of it",
      renewed,
      ["Connect", { token: "t1" }, 7_000],
      ended,
      [VoiceTokens.delete(["t1"]), VoiceTokens.delete(["t2"])],
      tokenMisused
    ],
    [
      "Connect with the new token",
      renewed,
      ["Connect", { token: "t2" }, 7_000],
      [{ _tag: "Connected" }],
      [row("t2", "used", 6_000)],
      { reply: { config, audioMs: 0, sourceEnded: false } }
    ],
    [
      "Renew by the newest token",
      parted,
      renew("t1", "t2", 6_000),
      [{ _tag: "Renewed", token: "t2", atMs: 6_000 }],
      [row("t1", "outdated", atMs), row("t2", "fresh", 6_000)],
      { reply: { config } }
    ],
    [
      "Renew while connected takes the connection's place",
      connected,
      renew("t1", "t2", 6_000),
      [{ _tag: "Renewed", token: "t2", atMs: 6_000 }],
      [row("t1", "outdated", atMs), row("t2", "fresh", 6_000)],
      { reply: { config } }
    ],
    [
      "Renew by an outdated token ends it",
      renewed,
      renew("t1", "t3", 7_000),
      ended,
      [VoiceTokens.delete(["t1"]), VoiceTokens.delete(["t2"])],
      tokenMisused
    ],
    [
      "Renew beyond 256 tokens ends it",
      { ...parted, tokens: Array.from({ length: 256 }, (_, i) => `t${i}`) },
      renew("t1", "new", 6_000),
      ended,
      Array.from({ length: 256 }, (_, i) => VoiceTokens.delete([`t${i}`])),
      tokenMisused
    ],
    [
      "Disconnect of its connection",
      connected,
      disconnect,
      [{ _tag: "Disconnected", atMs: 5_000 }],
      [],
      done
    ],
    [
      "Disconnect of a connection that was replaced is nothing",
      renewed,
      ["Disconnect", { token: "t1" }, 8_000],
      [],
      [],
      done
    ],
    ["Conclude", connected, conclude(1), [{ _tag: "Concluded", spoken: spoken(1) }], [], done],
    [
      "Conclude without a connection is kept all the same",
      parted,
      conclude(1),
      [{ _tag: "Concluded", spoken: spoken(1) }],
      [],
      done
    ],
    [
      "Translate",
      connected,
      ["Translate", { translated: [said(1, "de")] }, 3_000],
      [{ _tag: "Translated", said: [said(1, "de")] }],
      [],
      done
    ],
    [
      "Deliver with nothing to say",
      connected,
      ["Deliver", { token: "t1" }, 3_000],
      [],
      [],
      { reply: { undelivered: [], finished: false } }
    ],
    [
      "Deliver marks first, then says",
      after(create, connect, conclude(1)),
      ["Deliver", { token: "t1" }, 3_000],
      [{ _tag: "Delivered" }],
      [],
      { reply: { undelivered: [said(1)], finished: false } }
    ],
    [
      "Deliver to a connection that is not the one: nothing is marked",
      after(create, connect, conclude(1)),
      ["Deliver", { token: "x" }, 3_000],
      [],
      [],
      { reply: { undelivered: [], finished: false } }
    ],
    [
      "Deliver the last, finished",
      after(create, connect, conclude(1), ["Finish", {}, 3_000]),
      ["Deliver", { token: "t1" }, 3_000],
      [{ _tag: "Delivered" }],
      [],
      { reply: { undelivered: [said(1)], finished: true } }
    ],
    [
      "Deliver when finished and all said",
      after(create, connect, ["Finish", {}, 3_000]),
      ["Deliver", { token: "t1" }, 3_000],
      [],
      [],
      { reply: { undelivered: [], finished: true } }
    ],
    [
      "Deliver finished, but to another",
      after(create, connect, ["Finish", {}, 3_000]),
      ["Deliver", { token: "x" }, 3_000],
      [],
      [],
      { reply: { undelivered: [], finished: false } }
    ],
    [
      "Restore",
      parted,
      ["Restore", { undelivered: [said(1)] }, 5_000],
      [{ _tag: "Restored", said: [said(1)] }],
      [],
      done
    ],
    ["EndSource", connected, ["EndSource", {}, 3_000], [{ _tag: "SourceEnded" }], [], done],
    [
      "EndSource again is nothing",
      after(create, connect, ["EndSource", {}, 3_000]),
      ["EndSource", {}, 3_000],
      [],
      [],
      done
    ],
    ["Finish", connected, ["Finish", {}, 3_000], [{ _tag: "Finished" }], [], done],
    [
      "Finish again is nothing",
      after(create, connect, ["Finish", {}, 3_000]),
      ["Finish", {}, 3_000],
      [],
      [],
      done
    ],
    [
      "End takes its tokens' rows along",
      renewed,
      ["End", {}, 7_000],
      ended,
      [VoiceTokens.delete(["t1"]), VoiceTokens.delete(["t2"])],
      done
    ]
  ])("%s", (_, state, step, events, rows, answer) => {
    const decision = decide(state, step)
    expect([decision.events, decision.rows, decision.answer]).toEqual([events, rows, answer])
  })
  it.each<[string, Live, number]>([
    ["created, never connected: when its token cannot connect any more", created, atMs + connectWithinMs],
    ["connected: a day after its creation", connected, atMs + sessionMsMax],
    ["connection lost: ten minutes after that", parted, 5_000 + resumableMs],
    ["renewed and not connected again: ten minutes after the renewal", renewed, 6_000 + resumableMs],
    [
      "connected again",
      after(create, connect, disconnect, renew("t1", "t2", 6_000), ["Connect", { token: "t2" }, 7_000]),
      atMs + sessionMsMax
    ]
  ])("expires: %s", (_, state, endMs) => {
    expect(expiresAt!(state)).toBe(endMs)
    expect(decide(state, ["Expire", {}, endMs - 1]).events).toEqual([])
    expect(decide(state, ["Expire", {}, endMs]).events).toEqual(ended)
  })
  it("nothing lives longer than a day, however often it is renewed", () => {
    const late = after(
      create,
      connect,
      ["Disconnect", { token: "t1" }, sessionMsMax],
      renew("t1", "t2", sessionMsMax + 500)
    )
    expect(expiresAt!(late)).toBe(atMs + sessionMsMax)
    expect([expiresAt!({ _tag: "Absent" }), expiresAt!({ _tag: "Ended" })]).toEqual([undefined, undefined])
  })
})

describe("the fold", () => {
  it("from Created on", () => {
    expect(created).toEqual({
      _tag: "Live",
      config,
      token: "t1",
      tokens: ["t1"],
      issuedMs: atMs,
      createdMs: atMs,
      connection: "",
      disconnectedMs: 0,
      audioMs: 0,
      segments: 0,
      untranslated: [],
      undelivered: [],
      sourceEnded: false,
      finished: false
    })
    expect([connected.connection, parted.connection, parted.disconnectedMs]).toEqual(["t1", "", 5_000])
    expect([renewed.token, renewed.tokens, renewed.issuedMs, renewed.disconnectedMs]).toEqual([
      "t2",
      ["t1", "t2"],
      6_000,
      5_000
    ])
    expect(after(create, connect, renew("t1", "t2", 6_000))).toMatchObject({
      connection: "",
      disconnectedMs: 6_000
    })
  })
  it("text is said once: concluded, translated in order, delivered, restored before what came meanwhile", () => {
    const two = after(create, connect, conclude(1), conclude(2))
    expect(two).toMatchObject({
      segments: 2,
      audioMs: 290,
      untranslated: [spoken(1), spoken(2)],
      undelivered: [said(1), said(2)]
    })
    const translated = fold(
      two,
      decide(two, ["Translate", { translated: [said(1, "de")] }, 3_000]).events
    ) as Live
    expect([translated.untranslated, translated.undelivered]).toEqual([
      [spoken(2)],
      [said(1), said(2), said(1, "de")]
    ])
    const delivered = fold(translated, decide(translated, ["Deliver", { token: "t1" }, 3_000]).events) as Live
    expect(delivered.undelivered).toEqual([])
    const more = fold(delivered, decide(delivered, conclude(3)).events)
    expect(
      fold(more, decide(more, ["Restore", { undelivered: [said(1), said(2)] }, 3_000]).events)
    ).toMatchObject({ undelivered: [said(1), said(2), said(3)] })
  })
  it("without targets nothing waits for a translation", () => {
    expect(
      after(["Create", { config: { ...config, targets: [] }, token: "t1" }, atMs], connect, conclude(1))
    ).toMatchObject({ untranslated: [], undelivered: [said(1)] })
  })
  it("every event has a rule that makes it", () => {
    const events = [
      create,
      connect,
      conclude(1),
      ["Translate", { translated: [said(1, "de")] }, 1],
      ["Deliver", { token: "t1" }, 1],
      ["Restore", { undelivered: [said(1)] }, 1],
      ["EndSource", {}, 1],
      ["Finish", {}, 1],
      disconnect,
      renew("t1", "t2", 6_000),
      ["End", {}, 1]
    ] as ReadonlyArray<Step>
    const seen = new Set<string>()
    events.reduce<State>((state, step) => {
      const { events: decided } = decide(state, step)
      for (const { _tag } of decided) seen.add(_tag)
      return fold(state, decided)
    }, initial)
    expect([...seen].sort()).toEqual(Object.keys(evolve).sort())
  })
})
