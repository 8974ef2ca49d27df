/** Deletes files that a crash left between their last byte and the record of their job. It runs once, at
 *  startup, before any upload.
 *  Source: docs/spec/documents.md, section 9.8. */
import { MemoryJob, type MemoryJobView } from "../../../actors/memory-job.ts"
import { QualityJob, type QualityView } from "../../../actors/quality-job.ts"
import { VoiceJob, type VoiceJobView } from "../../../actors/voice-job.ts"
import type { ActorSystem } from "../../../runtime/registry.ts"
import type { Store } from "../../../storage/store.ts"

const uuid = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
const memoryFile = new RegExp(`^tmx?-(${uuid})(?:-${uuid})?$`)
const voiceFile = new RegExp(`^voice-(${uuid})-(?:source-${uuid}|\\d+)$`)
const qualityFile = new RegExp(`^quality-(${uuid})(?:-report)?$`)

export const dropLeftovers = async (store: Store, actors: ActorSystem): Promise<void> => {
  const ids = await store.blobs.ids()
  const viewOf = <V>(
    kind: typeof MemoryJob | typeof VoiceJob | typeof QualityJob,
    jobId: string
  ): Promise<V | undefined | "unknown"> =>
    new Promise((resolve) =>
      actors.ref(kind as typeof MemoryJob, jobId).askNow("Read", {}, (answer) => {
        if ("reply" in answer) resolve(answer.reply as V)
        else resolve("refuse" in answer ? "unknown" : undefined)
      })
    )
  for (const id of ids) {
    const memory = memoryFile.exec(id)?.[1]
    const voice = memory === undefined ? voiceFile.exec(id)?.[1] : undefined
    let needed = true
    if (memory !== undefined) {
      const view = await viewOf<MemoryJobView>(MemoryJob, memory)
      needed =
        view === undefined ||
        (view !== "unknown" && (view._tag === "Exporting" || ("blob" in view && view.blob === id)))
    } else if (voice !== undefined) {
      const view = await viewOf<VoiceJobView>(VoiceJob, voice)
      needed =
        view === undefined ||
        (view !== "unknown" &&
          (view._tag === "Processing"
            ? view.blob === id || !id.includes("-source-")
            : view._tag === "Done" && view.results.some(({ blob }) => blob === id)))
    }
    const quality = memory ?? voice ?? qualityFile.exec(id)?.[1]
    if (quality !== undefined && memory === undefined && voice === undefined) {
      const view = await viewOf<QualityView>(QualityJob, quality)
      needed = view === undefined || (view !== "unknown" && (view._tag === "Processing" || view.blob === id))
    }
    if (!needed) await store.blobs.delete(id)
  }
}
