/** Sizes that only show that each bench runs and its work is right; never its time. */
import { execFile } from "node:child_process"
import { promisify } from "node:util"
import { expect, it } from "vitest"

it.each([
  ["kernel", ["tell", "tell-1000", "ask", "ask-1000", "idle", "rate-window"]],
  ["storage", ["durable-1", "durable-64", "recovery"]],
  ["transport", ["http-json", "http-open", "translate-hit", "translate-miss"]],
  ["voice", ["voice-v3", "voice-v4"]],
  ["chat", ["chat-stream", "chat-stream-light", "chat-turns", "chat-latency"]],
  ["store", ["store-list", "store-read", "store-create"]],
  [
    "documents",
    ["docx", "xlsx", "xml", "xlf", "html", "json", "srt", "txt", "seal"].map((format) => `document-${format}`)
  ],
  ["language", ["tags", "memory", "glossary"]],
  ["oauth", ["oauth-client-credentials", "oauth-refresh", "oauth-introspect-opaque", "oauth-introspect-jwt"]],
  ["start", ["cold-start"]]
])(
  "bench smoke: %s",
  async (_, names) => {
    const { stdout } = await promisify(execFile)(
      process.execPath,
      ["dist/bench/run.js", "--smoke", ...names],
      { timeout: 100_000 }
    )
    for (const candidate of ["troupe", "first answer (lazy)"].filter((name) => stdout.includes(name)))
      expect(stdout).toContain(`| ${candidate} |`)
    expect(stdout.match(/^\| bench \|/gm)).toHaveLength(names.length)
  },
  120_000
)
