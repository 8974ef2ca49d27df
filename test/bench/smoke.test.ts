/** Sizes that only show that each bench runs and its work is right; never its time. */
import { execFile } from "node:child_process"
import { mkdtempSync, readdirSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
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

it("bench smoke: --against compares this tree with a commit and leaves no file behind", async () => {
  const temporary = mkdtempSync(join(tmpdir(), "troupe-against-test-"))
  try {
    const { stdout } = await promisify(execFile)(
      process.execPath,
      ["dist/bench/run.js", "--smoke", "--rounds", "2", "--against", "HEAD", "tell", "http-json"],
      { timeout: 100_000, env: { ...process.env, TMPDIR: temporary } }
    )
    expect(stdout).toMatch(/^before: [0-9a-f]{7,}/m)
    expect(stdout).toMatch(/^\| tell \| .* ns CPU .* \| 2 \| too few rounds \|/m)
    expect(stdout).toMatch(/^\| http-json \(H1\) \| .* \| 2 \| too few rounds \|/m)
    expect(readdirSync(temporary)).toEqual([])
  } finally {
    rmSync(temporary, { recursive: true, force: true })
  }
}, 120_000)
