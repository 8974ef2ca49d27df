/** Names the blobs of a document. They all contain the document's id, so that blobs without a job can be
 *  found. */

export const blobOf = {
  source: (id: string) => `doc-${id}.source`,
  result: (id: string) => `doc-${id}.result`,
  checkpoint: (id: string, n: number) => `doc-${id}.segments.${n}`
}

export const isCheckpointOf = (id: string, blob: string): boolean => blob.startsWith(`doc-${id}.segments.`)

/** Returns the id of the job that the blob belongs to, or undefined when it belongs to no document. */
export const jobOfBlob = (blob: string): string | undefined => /^doc-([0-9A-F]{32})\./.exec(blob)?.[1]
