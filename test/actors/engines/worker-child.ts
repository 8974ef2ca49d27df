/** A server that the worker's test kills: it starts Flite and prints its process id. */
import { startWorker } from "../../../actors/engines/worker.ts"
import type { FromFlite, ToFlite } from "../../../actors/engines/workers/flite.ts"
import { workerProcesses } from "./worker-processes.ts"

const processes = workerProcesses()
const worker = startWorker<ToFlite, FromFlite>("flite", {})
worker.listen(() => console.log(processes[0]!.pid))
process.stdin.resume()
