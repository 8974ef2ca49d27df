/** One connection to the server under test: sends one request at a time and reads its answer as far as the
 *  status, which costs a fraction of what fetch does. */
import { connect } from "node:net"

export class Connection {
  #socket
  #text = ""
  #answered = () => {}
  #failed = () => {}

  constructor(port) {
    this.#socket = connect(port, "127.0.0.1")
    this.#socket.setNoDelay(true)
    this.#socket.setEncoding("latin1")
    this.#socket.on("data", (text) => this.#read(text))
    this.#socket.on("error", (cause) => this.#failed(cause))
    this.#socket.on("close", () => this.#failed(new Error("the server closed the connection")))
  }

  /** Resolves with the status of the answer. */
  ask(request) {
    return new Promise((resolve, reject) => {
      this.#answered = resolve
      this.#failed = reject
      this.#socket.write(request, "latin1")
    })
  }

  #read(text) {
    this.#text += text
    const end = this.#text.indexOf("\r\n\r\n")
    if (end < 0) return
    const head = this.#text.slice(0, end)
    const length = Number(/^content-length: *(\d+)/im.exec(head)?.[1] ?? 0)
    if (this.#text.length < end + 4 + length) return
    this.#text = this.#text.slice(end + 4 + length)
    this.#answered(Number(head.slice(9, 12)))
  }

  close() {
    this.#failed = () => {}
    this.#socket.destroy()
  }
}
