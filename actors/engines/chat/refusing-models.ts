/** Remembers which models of an upstream refuse a field of the request, so that only the first request of
 *  each pays for finding out. It is guaranteed that no more than `modelsMax` names are remembered: an
 *  upstream with endless names cannot fill the memory. Source: docs/spec/chat.md, sections 13.1 and 13.2. */
import { UpstreamFault } from "./model.ts"

const modelsMax = 1_000

export class RefusingModels {
  private readonly models = new Set<string>()
  private readonly isRefusal: (detail: string) => boolean

  /** `isRefusal` tells by a bad request's detail whether the field was what the model refused. */
  constructor(isRefusal: (detail: string) => boolean) {
    this.isRefusal = isRefusal
  }

  has(model: string): boolean {
    return this.models.has(model)
  }

  /** Learns from the fault of a request that had the field; true when it should be sent again without it. */
  learn(model: string, fault: unknown): boolean {
    if (!(fault instanceof UpstreamFault) || fault.reason !== "bad-request" || !this.isRefusal(fault.detail))
      return false
    if (!this.models.has(model) && this.models.size >= modelsMax) return false
    this.models.add(model)
    return true
  }
}
