/** A listener of its own for what operators call: the admin API, the console and the metrics. Where one is
 *  configured, the public listener does not have their routes. Part of the composition root.
 *  Source: docs/spec/authorization.md, section 1.2. */
import type { Service } from "../http.ts"

export interface ListenAddress {
  readonly host: string
  readonly port: number
}

/** Reads `host:port`, where an IPv6 address stands in brackets; undefined when it is none. */
export const listenAddressOf = (text: string): ListenAddress | undefined => {
  const [, bracketed, plain, digits] = /^(?:\[([^\]]+)\]|([^:]+)):(\d{1,5})$/.exec(text.trim()) ?? []
  const host = bracketed ?? plain
  const port = Number(digits)
  return host === undefined || port > 65_535 ? undefined : { host, port }
}

/** True for a path that only operators call. */
export const isForOperators = (path: string): boolean => /^\/(?:admin|console|metrics)(?:\/|$)/.test(path)

/** The services of the public listener, and of the operators' one. */
export interface SplitServices {
  readonly open: ReadonlyArray<Service>
  readonly operators: ReadonlyArray<Service>
}

export const splitServices = (services: ReadonlyArray<Service>): SplitServices => ({
  open: services.map((service) => ({
    ...service,
    routes: service.routes.filter(({ path }) => !isForOperators(path))
  })),
  operators: services.flatMap((service) => {
    const routes = service.routes.filter(({ path }) => isForOperators(path))
    return routes.length === 0 ? [] : [{ ...service, routes, sockets: [] }]
  })
})
