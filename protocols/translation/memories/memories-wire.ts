/** Encoders of translation memories, their segments and jobs.
 *  Source: docs/spec/translation.md, sections 9.1, 9.4, 9.8. */
const time = (atMs: number): string => new Date(atMs).toISOString()

interface Memory {
  readonly memoryId: string
  readonly name: string
  readonly source: string
  readonly targets: ReadonlyArray<string>
  readonly segments: number
  readonly createdMs: number
  readonly updatedMs: number
}

export const memoryJson = ({ memoryId, name, source, targets, segments, createdMs, updatedMs }: Memory) => ({
  translation_memory_id: memoryId,
  name,
  source_language: source,
  target_languages: targets,
  segment_count: segments,
  creation_time: time(createdMs),
  updated_time: time(updatedMs)
})

export interface SegmentView {
  readonly id: string
  readonly text: string
  readonly usedMs: number | undefined
  readonly targets: ReadonlyArray<{ readonly id: string; readonly language: string; readonly text: string }>
}

export const segmentJson = ({ id, text, usedMs, targets }: SegmentView) => ({
  source_segment_id: id,
  source_text: text,
  ...(usedMs === undefined ? {} : { last_used_time: time(usedMs) }),
  targets: targets.map((target) => ({
    target_segment_id: target.id,
    target_language: target.language,
    target_text: target.text
  }))
})

interface Job {
  readonly operation: "import" | "export"
  readonly memoryId: string
  readonly name: string | null
  readonly contentType: string
  readonly contentLength: number
  readonly createdMs: number
  readonly updatedMs: number
}

export type JobView = { readonly job: Job } & (
  | { readonly _tag: "Awaiting" | "Importing" | "Exporting" | "Expired" }
  | { readonly _tag: "Imported"; readonly skipped: number }
  | { readonly _tag: "Exported"; readonly expiresMs: number; readonly fetched: boolean }
  | { readonly _tag: "Failed"; readonly message: string }
)

const resultOf = (view: JobView, downloadUrl: string): object => {
  switch (view._tag) {
    case "Awaiting":
      return { status: "awaiting_input", status_metadata: { required_action: "Waiting for upload" } }
    case "Importing":
    case "Exporting":
      return { status: "processing" }
    case "Imported":
      return {
        status: "completed",
        translation_memory_id: view.job.memoryId,
        skipped_segment_count: view.skipped
      }
    case "Exported":
      return {
        status: view.fetched ? "downloaded" : "completed",
        download_url: downloadUrl,
        expires_at: time(view.expiresMs)
      }
    case "Failed":
      return { status: "failed", error: { message: view.message } }
    case "Expired":
      return { status: "expired" }
  }
}

export const jobJson = (jobId: string, view: JobView, downloadUrl: string) => {
  const { operation, memoryId, name, contentType, contentLength, createdMs, updatedMs } = view.job
  return {
    job_id: jobId,
    product: "translation_memory",
    operation,
    creation_time: time(createdMs),
    updated_time: time(updatedMs),
    ...(operation === "import"
      ? {
          source_file: { content_type: contentType, content_length: contentLength },
          ...(name === null ? {} : { parameters: { display_name: name } })
        }
      : { parameters: { translation_memory_id: memoryId } }),
    results: [resultOf(view, downloadUrl)]
  }
}
