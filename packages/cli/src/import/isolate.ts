// Which records of a batch does the server refuse, and how do all others get in?
//
// A request is applied as a whole or not at all, so one bad record keeps its neighbours out. The server names the
// first bad record by position: the ones before it are sent again, it is rejected, and the rest follows. Where no
// position is named the request is halved until the bad record is alone. After a refusal the next request is small and
// doubles with each success: a file in which everything is wrong costs a request a line and not a batch a line.

import type { QuiverError } from "@quiver/client";
import { isQuiverError } from "@quiver/client";
import type { Item } from "./item.ts";

export type Rejected = { readonly item: Item; readonly code: string; readonly reason: string };

/** Codes with which the server refuses a record for what it is; every other error ends the import. */
const recordCodes = new Set([
  "invalid_vector",
  "invalid_request",
  "unknown_field",
  "invalid_json",
  "modality_not_enabled",
  "body_too_large",
]);

/**
 * Sends records; resolves with those that the server refuses, when all others are acknowledged.
 * @param send sends records as one request
 * @param stop asked before each request after a refusal: true ends it, with what is known so far
 */
export async function sendIsolating(
  records: readonly Item[],
  send: (records: readonly Item[]) => Promise<unknown>,
  stop: (rejected: readonly Rejected[]) => boolean = () => false,
): Promise<Rejected[]> {
  const rejected: Rejected[] = [];
  /** A record that the server has named, behind ones that it has found good. */
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
    const named = { item: part[bad], code: error.code, reason: reasonOf(error) };
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
    if (isQuiverError(error) && recordCodes.has(error.code)) return error;
    throw error;
  }
}

/** Index of the record that the error is about. */
function positionIn(error: QuiverError): number | undefined {
  const { path } = error.details;
  const match = /^vectors\[(\d+)\]/.exec(typeof path === "string" ? path : error.message);
  return match ? Number(match[1]) : undefined;
}

/** The message without the position in the request, which means nothing to the user. */
function reasonOf(error: QuiverError): string {
  return error.message.replace(/^vectors\[\d+\]\.?\s*/, "");
}
