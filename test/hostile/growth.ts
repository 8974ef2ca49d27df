/** What a process holds over time: memory, files, folder, connections, actors; and whether the last half of it
 *  is flat. */
import { folderMiB, openFiles, residentMiB } from "./served.ts"

export interface Sample {
  readonly atS: number
  readonly residentMiB: number
  readonly heapMiB: number
  readonly files: number
  readonly folderMiB: number
  readonly connections: number
  readonly inFlight: number
  readonly webSockets: number
  readonly actors: number
}

/** Sums every series of a metric. */
export const metricOf = (exposition: string, name: string): number =>
  exposition
    .split("\n")
    .filter((line) => line.startsWith(`${name} `) || line.startsWith(`${name}{`))
    .reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(" ") + 1)), 0)

export interface Watched {
  readonly pid: number
  readonly url: string
  readonly folder: string
}

export const sampleOf = async ({ pid, url, folder }: Watched, sinceMs: number): Promise<Sample> => {
  const exposition = await (await fetch(`${url}/metrics`)).text()
  return {
    atS: Math.round((performance.now() - sinceMs) / 1_000),
    residentMiB: residentMiB(pid),
    heapMiB: metricOf(exposition, "nodejs_heap_used_bytes") / 2 ** 20,
    files: openFiles(pid),
    folderMiB: folderMiB(folder),
    connections: metricOf(exposition, "troupe_connections_open"),
    inFlight: metricOf(exposition, "troupe_requests_in_flight"),
    webSockets: metricOf(exposition, "troupe_websockets_open"),
    actors: metricOf(exposition, "troupe_actors_live")
  }
}

export type Measure = Exclude<keyof Sample, "atS">

const mean = (samples: ReadonlyArray<Sample>, measure: Measure): number =>
  samples.length === 0 ? 0 : samples.reduce((sum, sample) => sum + sample[measure], 0) / samples.length

/** The mean of the last quarter over that of the one before: 1 is flat. */
export const slopeOf = (samples: ReadonlyArray<Sample>, measure: Measure): number => {
  const quarter = Math.max(1, Math.floor(samples.length / 4))
  const before = mean(samples.slice(-2 * quarter, -quarter), measure)
  return before === 0 ? 1 : mean(samples.slice(-quarter), measure) / before
}
