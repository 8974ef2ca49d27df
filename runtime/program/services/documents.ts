/** Wires up document translation: the job as an actor with its ports, its routes, and the removal of what a
 *  crash left behind. Part of the composition root. */
import { Context, Effect } from "effect"
import { DocumentJob } from "../../../actors/document-job.ts"
import type { TranslationOptions } from "../../../actors/documents/meta.ts"
import { DocumentWork } from "../../../actors/documents/ports.ts"
import { DocumentRoutes, type DocumentDeps } from "../../../protocols/translation/documents/routes.ts"
import { languageOf } from "../../../protocols/translation/languages.ts"
import { isRefusal } from "../../../protocols/translation/problems.ts"
import type { Resources } from "../../../protocols/translation/resources.ts"

/** Applies glossaries, style lists and memories to documents: they are checked at upload and resolved again
 *  for each batch. */
export const documentCustomizations = ({
  customizations: aids,
  memories
}: Resources): Required<Pick<DocumentDeps, "references" | "customizations">> => {
  const resolveCustomizations = (
    accountId: string,
    source: ReturnType<typeof languageOf>,
    target: NonNullable<typeof source>,
    { glossaryIds, styleId, memoryId, memoryThreshold }: TranslationOptions
  ) =>
    aids.of(accountId, {
      source,
      target,
      glossaryIds,
      styleId: styleId ?? undefined,
      memoryId: memoryId ?? undefined,
      memoryThreshold
    })
  return {
    references: (accountId, { source, target, steering }) => {
      const customization = resolveCustomizations(accountId, source, target, steering)
      return isRefusal(customization) ? customization : undefined
    },
    customizations: {
      memories,
      of: ({ accountId, source, target, options }) =>
        resolveCustomizations(accountId, languageOf(source), languageOf(target)!, options)
    }
  }
}

export const documentService = async (deps: DocumentDeps): Promise<DocumentRoutes> => {
  const service = new DocumentRoutes(deps)
  deps.actors.host(DocumentJob, Context.make(DocumentWork, service.worker))
  await Effect.runPromise(service.recover())
  return service
}
