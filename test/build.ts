/** Before any test: the bundle, because crash tests, workers and the CLI run the built program.
 *  TROUPE_BUILT=1 reuses dist/ as it is. */
import { execFileSync } from "node:child_process"

export default (): void => {
  if (process.env["TROUPE_BUILT"] !== "1")
    execFileSync(process.execPath, ["runtime/build.mjs"], { stdio: "inherit" })
}
