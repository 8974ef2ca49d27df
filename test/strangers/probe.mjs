/** Runs inside the server under test, beside the built program: collects garbage when asked, and reports what
 *  memory is left. */
process.on("message", () => {
  globalThis.gc()
  const { heapUsed, external, rss } = process.memoryUsage()
  process.send({ heapUsed, external, rss })
})
process.channel?.unref()
