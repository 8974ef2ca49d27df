/** Maps exceptions to problems: a refusal to its own, a model server's fault by its reason, and everything
 *  else to a defect. Guarantee: a fault reason without a problem does not compile.
 *  Source: docs/spec/chat.md, sections 5 and 14. */
import { UpstreamFault } from "../../actors/engines/chat/model.ts"
import { StorageFault } from "../../storage/store.ts"
import { Refusal, type Problem } from "./problems.ts"
import { upstreamRateLimit } from "./rate-limit.ts"

type FaultProblem = (fault: UpstreamFault, model: string) => Problem

const timeout: FaultProblem = () => ({ _tag: "UpstreamTimeout", shouldNotRetry: false })

const problemByReason: Record<UpstreamFault["reason"], FaultProblem> = {
  "bad-request": ({ detail, code = null, param = null }) => ({
    _tag: "UpstreamRejected",
    message: detail,
    code,
    param
  }),
  context: ({ detail }) => ({ _tag: "ContextExceeded", message: detail }),
  unsupported: ({ detail, param = null }) => ({ _tag: "UpstreamUnsupported", detail, param }),
  "not-found": (_, model) => ({ _tag: "ModelNotFound", model }),
  auth: () => ({ _tag: "UpstreamAuth" }),
  "too-large": () => ({ _tag: "UpstreamTooLarge" }),
  "rate-limited": upstreamRateLimit,
  overloaded: ({ retryAfterMs }) => ({ _tag: "UpstreamOverloaded", retryAfterMs }),
  "queue-full": () => ({ _tag: "Overloaded" }),
  // The limit of a turn, a first byte or an idle stream: the generation may have started, and another try
  // would repeat it.
  timeout: () => ({ _tag: "UpstreamTimeout", shouldNotRetry: true }),
  "connect-timeout": timeout,
  "gateway-timeout": timeout,
  unavailable: () => ({ _tag: "UpstreamUnavailable" }),
  "bad-response": ({ detail }) => ({ _tag: "UpstreamBadResponse", detail }),
  broken: () => ({ _tag: "UpstreamBroken" }),
  aborted: () => ({ _tag: "ClientDisconnected" }),
  error: () => ({ _tag: "UpstreamFailed" })
}

/** Returns the problem of an exception; `model` is the name that the client requested. */
export const problemOf = (thrown: unknown, model = ""): Problem => {
  if (thrown instanceof Refusal) return thrown.problem
  if (thrown instanceof UpstreamFault) return problemByReason[thrown.reason](thrown, model)
  if (thrown instanceof StorageFault && thrown.reason === "full") return { _tag: "StorageUnavailable" }
  return { _tag: "InternalError" }
}
