/** Finds free ports and waits until a server listens, for programs that do not choose a port themselves. */
import net from "node:net"

export const freePort = (): Promise<number> =>
  new Promise((resolve) => {
    const probe = net.createServer().listen(0, "127.0.0.1", () => {
      const { port } = probe.address() as net.AddressInfo
      probe.close(() => resolve(port))
    })
  })

const listens = (port: number): Promise<boolean> =>
  new Promise((resolve) => {
    const wire = net
      .connect(port, "127.0.0.1", () => {
        wire.destroy()
        resolve(true)
      })
      .on("error", () => resolve(false))
  })

export const listening = async (port: number): Promise<void> => {
  while (!(await listens(port))) await new Promise((resolve) => setTimeout(resolve, 20))
}
