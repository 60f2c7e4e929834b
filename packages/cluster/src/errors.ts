// Which errors does a cluster add?

import { QuiverError } from "@quiverdb/protocol/errors";

/** @param applied whether a write may have been applied all the same */
export function logUnavailable(why: string, applied: "unknown" | "no" = "no"): QuiverError {
  const outcome =
    applied === "no"
      ? "Nothing was changed. Send the request again."
      : "It is unknown whether the request was applied. Look, or send it again: a repeated upsert or delete changes nothing.";
  return new QuiverError("log_unavailable", `The cluster's log does not answer: ${why}. ${outcome}`, {
    applied,
    retry_after_seconds: 1,
  });
}

export const logDiverged = (what: string, why: string): QuiverError =>
  new QuiverError(
    "log_diverged",
    `${what} takes no writes: ${why}. 'quiver cluster status' names the replicas; nothing is repaired by guessing.`,
    {},
  );

export const stopping = (): QuiverError =>
  new QuiverError("shutting_down", "The node is stopping; send the request to another one.");
