/** The names of a document's blobs. All of one document share its id, so what no job owns can be found. */

export const blobOf = {
  source: (id: string) => `doc-${id}.source`,
  result: (id: string) => `doc-${id}.result`,
  checkpoint: (id: string, n: number) => `doc-${id}.segments.${n}`
}

export const isCheckpointOf = (id: string, blob: string): boolean => blob.startsWith(`doc-${id}.segments.`)

/** The id of the job that the blob belongs to; undefined: it is no document's. */
export const jobOfBlob = (blob: string): string | undefined => /^doc-([0-9A-F]{32})\./.exec(blob)?.[1]
