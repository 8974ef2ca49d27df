/** Declares the configuration of translation: its limits, its test mode and its engines. */
import { item } from "./item.ts"

export const translationItems = {
  corsOrigins: item({
    name: "translation.cors_origins",
    env: "TROUPE_CORS_ORIGINS",
    kind: "list",
    initial: [],
    doc: "Origins of browsers that may call the translation API."
  }),
  testMode: item({
    name: "translation.test_mode",
    env: "TROUPE_TEST_MODE",
    kind: "boolean",
    initial: false,
    doc: "Translation for the vendor's client test-suites: fixture engine, any key, steering headers; everything in memory, never beside real accounts."
  }),
  testProxyPort: item({
    name: "translation.test_proxy_port",
    env: "TROUPE_TEST_PROXY_PORT",
    kind: "integer",
    initial: 3_001,
    min: 0,
    max: 65_535,
    doc: "Forward proxy of test mode; 0: any free port."
  }),
  rateCalls: item({
    name: "translation.rate_calls",
    env: "TROUPE_RATE_CALLS",
    kind: "integer",
    initial: 200,
    min: 1,
    max: 1_000_000,
    doc: "Translation calls per key and window."
  }),
  rateWindowMs: item({
    name: "translation.rate_window_ms",
    env: "TROUPE_RATE_WINDOW_MS",
    kind: "integer",
    initial: 2_000,
    min: 10,
    max: 3_600_000,
    doc: "Length of that window in ms."
  }),
  callsInFlight: item({
    name: "translation.calls_in_flight",
    env: "TROUPE_CALLS_IN_FLIGHT",
    kind: "integer",
    initial: 64,
    min: 1,
    max: 100_000,
    doc: "Translation calls per key at once."
  }),
  enginesTranslate: item({
    name: "engines.translate",
    env: "ENGINES_TRANSLATE",
    kind: "list",
    initial: ["deepl", "openai", "firefox", "apertium"],
    doc: "Translators in order of preference; those that are not ready are passed over."
  }),
  apertium: item({
    name: "engines.apertium",
    env: "APERTIUM",
    kind: ["auto", "off"],
    initial: "auto",
    doc: "Use the Apertium pairs that are installed."
  }),
  pairsWarm: item({
    name: "engines.pairs_warm",
    env: "PAIRS_WARM",
    kind: "list",
    initial: [],
    doc: "Directions to start at once, as en>es."
  }),
  modelsDir: item({
    name: "engines.models_dir",
    env: "MODELS_DIR",
    kind: "string",
    initial: "./models",
    doc: "Folder of model files the operator supplies: mt/<src>-<trg>/, stt/<lang>/."
  }),
  sttMaxSessions: item({
    name: "engines.stt_max_sessions",
    env: "STT_MAX_SESSIONS",
    kind: "integer",
    initial: 2,
    min: 0,
    max: 64,
    doc: "Hearings of the embedded recognizer at once, about one per core; 0 switches it off."
  }),
  openaiBaseUrl: item({
    name: "engines.openai_base_url",
    env: "OPENAI_BASE_URL",
    kind: "string",
    initial: undefined,
    doc: "OpenAI-compatible upstream (…/v1) for translation and transcription."
  }),
  openaiApiKey: item({
    name: "engines.openai_api_key",
    env: "OPENAI_API_KEY",
    kind: "string",
    initial: undefined,
    secret: true,
    doc: "Its key."
  }),
  openaiModel: item({
    name: "engines.openai_model",
    env: "OPENAI_MODEL",
    kind: "string",
    initial: undefined,
    doc: "Its chat model for translation; unset: not used for that."
  }),
  openaiSttModel: item({
    name: "engines.openai_stt_model",
    env: "OPENAI_STT_MODEL",
    kind: "string",
    initial: undefined,
    doc: "Its transcription model; unset: not used for that."
  }),
  deeplUpstreamUrl: item({
    name: "engines.deepl_upstream_url",
    env: "DEEPL_UPSTREAM_URL",
    kind: "string",
    initial: undefined,
    doc: "DeepL-compatible upstream for translation."
  }),
  deeplUpstreamKey: item({
    name: "engines.deepl_upstream_key",
    env: "DEEPL_UPSTREAM_KEY",
    kind: "string",
    initial: undefined,
    secret: true,
    doc: "Its key."
  })
}
