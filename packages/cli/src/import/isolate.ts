// How are the valid records of a batch stored when the server rejects some of them?
//
// A user who imports a million lines, of which a dozen are invalid, gets all others stored in one run.
//
// A request is applied as a whole or not at all, so one bad record blocks its neighbours. The server names the first bad record by
// position: the records before it are sent again, it is rejected, and the rest follows. If no position is named, the request is halved
// until the bad record is alone. After an error the next request is small, and the size doubles with each success: a file in which every
// record is bad costs one small request per line instead of a batch per line.

import { isQuiverError, type QuiverError } from "@quiverdb/client";
import type { Item } from "@quiverdb/import/files/item";
import { reasonOf } from "@quiverdb/import/record-reason";

export type Rejected = { readonly item: Item; readonly code: string; readonly reason: string };

/** Codes of errors that concern a single record. So does `forbidden`, if it names one; every other error stops the import. */
const recordCodes = new Set([
  "invalid_vector",
  "invalid_request",
  "unknown_field",
  "invalid_json",
  "modality_not_enabled",
  "body_too_large",
]);

/**
 * Sends records; resolves with the rejected ones when all others are acknowledged.
 * @param send sends records as one request
 * @param stop called before each request after a rejection; true stops with the results so far
 */
export async function sendIsolating(
  records: readonly Item[],
  send: (records: readonly Item[]) => Promise<unknown>,
  stop: (rejected: readonly Rejected[]) => boolean = () => false,
): Promise<Rejected[]> {
  const rejected: Rejected[] = [];
  /** The server has named this record; the ones before it are valid. */
  let known: (Rejected & { at: number }) | undefined;
  let at = 0;
  let size = records.length;
  while (at < records.length) {
    if (rejected.length > 0 && stop(rejected)) break;
    const part = records.slice(at, at + size);
    const error = await refusal(send, part);
    if (!error) {
      at += part.length;
      size = part.length * 2;
      if (known?.at === at) {
        rejected.push({ item: known.item, code: known.code, reason: known.reason });
        known = undefined;
        at += 1;
      }
      continue;
    }
    const bad = part.length === 1 ? 0 : positionIn(error);
    if (bad === undefined || bad >= part.length) {
      size = Math.ceil(part.length / 2);
      continue;
    }
    const item = part[bad];
    const named = { item, code: error.code, reason: reasonOf(error, item.names) };
    if (bad > 0) {
      known = { ...named, at: at + bad };
      size = bad;
    } else {
      rejected.push(named);
      at += 1;
      size = Math.max(1, Math.floor(part.length / 2));
    }
  }
  return rejected;
}

async function refusal(
  send: (records: readonly Item[]) => Promise<unknown>,
  records: readonly Item[],
): Promise<QuiverError | undefined> {
  try {
    await send(records);
    return undefined;
  } catch (error) {
    if (isQuiverError(error) && (recordCodes.has(error.code) || isForbiddenRecord(error))) return error;
    throw error;
  }
}

/** Whether the filter of the key forbids one of the records. */
const isForbiddenRecord = (error: QuiverError): boolean =>
  error.code === "forbidden" && positionIn(error) !== undefined;

/** Index of the record that the error is about. */
function positionIn(error: QuiverError): number | undefined {
  const { path } = error.details;
  const match = /^vectors\[(\d+)\]/.exec(typeof path === "string" ? path : error.message);
  return match ? Number(match[1]) : undefined;
}
