/** Documents, wired: the job as an actor with its ports, the routes over it, and what a crash has left swept away. Part of the composition root. */
import { Context } from "effect"
import { DocumentJob } from "../../actors/document-job.ts"
import { DocumentPorts } from "../../actors/documents/ports.ts"
import { DocumentService, type DocumentDeps } from "../../protocols/translation/documents.ts"

export const documentService = async (deps: DocumentDeps): Promise<DocumentService> => {
  const service = new DocumentService(deps)
  deps.actors.host(DocumentJob, Context.make(DocumentPorts, service.ports))
  await service.recover()
  return service
}
