/** A language model of some hundred kilobytes, written here byte by byte: llama architecture, random weights
 *  from a seed, one token for each printable ASCII character. It speaks gibberish, which is enough to show
 *  that a runtime really runs it. Source: the GGUF format, version 3. */

const [dimension, inner, layers, heads] = [32, 64, 2, 4]
const alignment = 32
const roles = ["system", "user", "assistant"] as const

/** `<|user|>Hi</s><|assistant|>`: a mark before each message, the end token after it. */
const template =
  "{{ bos_token }}{% for message in messages %}{{ '<|' + message['role'] + '|>' + message['content'] + eos_token }}{% endfor %}{% if add_generation_prompt %}{{ '<|assistant|>' }}{% endif %}"

const types = { uint32: 4, float32: 6, bool: 7, string: 8, array: 9, int32: 5 } as const

type Value =
  | readonly [type: "uint32" | "float32", value: number]
  | readonly [type: "bool", value: boolean]
  | readonly [type: "string", value: string]
  | readonly [type: "array", of: "string" | "float32" | "int32", values: ReadonlyArray<string | number>]

/** Little-endian bytes, put one after another. */
class Bytes {
  private readonly parts: Array<Buffer> = []
  length = 0

  add(part: Buffer): this {
    this.parts.push(part)
    this.length += part.length
    return this
  }

  uint32(value: number): this {
    const part = Buffer.alloc(4)
    part.writeUInt32LE(value)
    return this.add(part)
  }

  uint64(value: number): this {
    const part = Buffer.alloc(8)
    part.writeBigUInt64LE(BigInt(value))
    return this.add(part)
  }

  float32(value: number): this {
    const part = Buffer.alloc(4)
    part.writeFloatLE(value)
    return this.add(part)
  }

  string(value: string): this {
    const part = Buffer.from(value)
    return this.uint64(part.length).add(part)
  }

  pad(): this {
    return this.add(Buffer.alloc((alignment - (this.length % alignment)) % alignment))
  }

  one(type: string, value: string | number): this {
    if (type === "string") return this.string(String(value))
    return type === "float32" ? this.float32(Number(value)) : this.uint32(Number(value))
  }

  value(typed: Value): this {
    const [type, value] = typed
    this.uint32(types[type])
    if (type === "bool") return this.add(Buffer.from([value ? 1 : 0]))
    if (type !== "array") return this.one(type, value)
    const [, of, values] = typed
    this.uint32(types[of]).uint64(values.length)
    for (const one of values) this.one(of, one)
    return this
  }

  whole(): Buffer {
    return Buffer.concat(this.parts)
  }
}

/** Normal numbers from a seed. */
const normal = (seed: number): (() => number) => {
  const next = (): number => {
    seed = (Math.imul(seed, 1_664_525) + 1_013_904_223) >>> 0
    return (seed + 1) / 4_294_967_297
  }
  return () => Math.sqrt(-2 * Math.log(next())) * Math.cos(2 * Math.PI * next())
}

const Kind = { Normal: 1, Unknown: 2, Control: 3, Byte: 6 }

const vocabulary: ReadonlyArray<readonly [text: string, kind: number]> = [
  ["<unk>", Kind.Unknown],
  ["<s>", Kind.Control],
  ["</s>", Kind.Control],
  ...roles.map((role) => [`<|${role}|>`, Kind.Control] as const),
  ...Array.from(
    { length: 256 },
    (_, i) => [`<0x${i.toString(16).toUpperCase().padStart(2, "0")}>`, Kind.Byte] as const
  ),
  // SentencePiece writes a space as U+2581.
  ...Array.from(
    { length: 95 },
    (_, i) => [i === 0 ? "\u2581" : String.fromCharCode(32 + i), Kind.Normal] as const
  )
]

export interface Tiny {
  readonly seed?: number
  readonly contextTokens?: number
  /** How much it likes to end: added to the end token's logit. */
  readonly end?: number
}

export const tinyGguf = ({ seed = 1, contextTokens = 512, end = -20 }: Tiny = {}): Buffer => {
  const random = normal(seed)
  const tensors: Array<readonly [name: string, shape: ReadonlyArray<number>, data: Float32Array]> = []
  const tensor = (name: string, shape: ReadonlyArray<number>, of: (i: number) => number): void => {
    tensors.push([name, shape, Float32Array.from({ length: shape.reduce((a, b) => a * b) }, (_, i) => of(i))])
  }
  const weights = (name: string, columns: number, rows: number): void =>
    tensor(name, [columns, rows], () => random() / Math.sqrt(columns))
  const ones = (name: string): void => tensor(name, [dimension], () => 1)
  /** The first number of every embedding is large, so the first weight of an output row acts as that token's
   *  bias: letters before bytes and marks. */
  const first = 8
  tensor("token_embd.weight", [dimension, vocabulary.length], (i) => (i % dimension === 0 ? first : random()))
  for (let layer = 0; layer < layers; layer++) {
    for (const name of ["attn_norm", "ffn_norm"]) ones(`blk.${layer}.${name}.weight`)
    for (const name of ["attn_q", "attn_k", "attn_v", "attn_output"])
      weights(`blk.${layer}.${name}.weight`, dimension, dimension)
    for (const name of ["ffn_gate", "ffn_up"]) weights(`blk.${layer}.${name}.weight`, dimension, inner)
    weights(`blk.${layer}.ffn_down.weight`, inner, dimension)
  }
  ones("output_norm.weight")
  const normed = first / Math.sqrt((first * first + dimension) / dimension)
  tensor("output.weight", [dimension, vocabulary.length], (i) => {
    const [text, kind] = vocabulary[Math.floor(i / dimension)]!
    if (i % dimension !== 0) return random() / 2
    if (text === "</s>") return end / normed
    return (kind === Kind.Normal ? 0 : -20) / normed
  })

  const metadata: Readonly<Record<string, Value>> = {
    "general.architecture": ["string", "llama"],
    "general.name": ["string", "tiny"],
    "general.file_type": ["uint32", 0],
    "general.alignment": ["uint32", alignment],
    "llama.context_length": ["uint32", contextTokens],
    "llama.embedding_length": ["uint32", dimension],
    "llama.block_count": ["uint32", layers],
    "llama.feed_forward_length": ["uint32", inner],
    "llama.attention.head_count": ["uint32", heads],
    "llama.attention.head_count_kv": ["uint32", heads],
    "llama.attention.layer_norm_rms_epsilon": ["float32", 1e-5],
    "llama.rope.dimension_count": ["uint32", dimension / heads],
    "llama.vocab_size": ["uint32", vocabulary.length],
    "tokenizer.ggml.model": ["string", "llama"],
    "tokenizer.ggml.tokens": ["array", "string", vocabulary.map(([text]) => text)],
    "tokenizer.ggml.scores": ["array", "float32", vocabulary.map(() => 0)],
    "tokenizer.ggml.token_type": ["array", "int32", vocabulary.map(([, kind]) => kind)],
    "tokenizer.ggml.unknown_token_id": ["uint32", 0],
    "tokenizer.ggml.bos_token_id": ["uint32", 1],
    "tokenizer.ggml.eos_token_id": ["uint32", 2],
    "tokenizer.ggml.add_bos_token": ["bool", true],
    "tokenizer.ggml.add_eos_token": ["bool", false],
    "tokenizer.ggml.add_space_prefix": ["bool", false],
    "tokenizer.chat_template": ["string", template]
  }
  const file = new Bytes()
    .add(Buffer.from("GGUF"))
    .uint32(3)
    .uint64(tensors.length)
    .uint64(Object.keys(metadata).length)
  for (const [name, value] of Object.entries(metadata)) file.string(name).value(value)
  let offset = 0
  for (const [name, shape, data] of tensors) {
    file.string(name).uint32(shape.length)
    for (const size of shape) file.uint64(size)
    file.uint32(0).uint64(offset) // 0: plain 32-bit floats
    offset += Math.ceil(data.byteLength / alignment) * alignment
  }
  file.pad()
  for (const [, , data] of tensors) file.add(Buffer.from(data.buffer)).pad()
  return file.whole()
}
