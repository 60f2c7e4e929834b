// What are the things of a cluster called in JetStream?

export const catalogStream = "quiver-catalog";
export const catalogSubject = "quiver.catalog";
/** States of the catalog, behind which its log is read by nodes whose changes it no longer has. */
export const catalogStateSubject = "quiver.catalog.state";
export const logStream = (log: number): string => `quiver-log-${log}`;
/** Under which messages of a collection are published. */
export const logSubject = (log: number, internalId: string): string => `quiver.log.${log}.${internalId}`;
export const internalIdOf = (subject: string): string => subject.slice(subject.lastIndexOf(".") + 1);
/** Messages without contents, by which the end of a log is found (log-end.ts). */
export const endId = "end";
export const endSubject = (subject: string): string => `${subject}.${endId}`;
/** Messages that are too large for the log. */
export const largeBucket = "quiver-large";
/** Which nodes live, and how far they are. */
export const nodesBucket = "quiver-nodes";
/** What was decided when the cluster began. */
export const clusterBucket = "quiver-cluster";

/** The catalog's position at the node that published, which whoever applies the message must have reached. */
export const catalogHeader = "Quiver-Catalog";

/** The log in which a collection lies. */
export function logOf(internalId: string, logs: number): number {
  let hash = 0;
  for (let i = 0; i < internalId.length; i++) hash = (Math.imul(hash, 31) + internalId.charCodeAt(i)) >>> 0;
  return hash % logs;
}
