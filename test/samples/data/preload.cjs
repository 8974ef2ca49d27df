// Loaded into the program before anything of its own (NODE_OPTIONS): the time is the one that SAMPLE_CLOCK_MS names, so that what was
// recorded never grows old, and goes on from there; SIGUSR2 moves it on by 20 s. What the program sends to the port that the sample
// knows its surroundings by goes to the port where they listen now.
const { Socket } = require("node:net")
const { isMainThread } = require("node:worker_threads")

const real = Date.now
let ahead = Number(process.env.SAMPLE_CLOCK_MS) - real()
globalThis.Date = class extends Date {
  constructor(...given) {
    if (given.length === 0) super(real() + ahead)
    else super(...given)
  }
  static now() {
    return real() + ahead
  }
}
if (isMainThread)
  process.on("SIGUSR2", () => {
    ahead += 20_000
  })

const recorded = Number(process.env.SAMPLE_OUTSIDE_PORT)
const listening = Number(process.env.SAMPLE_OUTSIDE_PORT_NOW)
const { connect } = Socket.prototype
Socket.prototype.connect = function (...given) {
  const options = Array.isArray(given[0]) ? given[0][0] : given[0]
  if (typeof options === "object" && options !== null && Number(options.port) === recorded)
    options.port = listening
  return connect.apply(this, given)
}
