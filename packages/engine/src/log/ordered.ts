// How does a replica apply requests that a replicated log has ordered?
//
// Every replica makes the trial of the sequencer with each message, at its place in the log, with the time and opId of the message. So all
// replicas accept and refuse alike, and none leads. The one that published a message answers its requests with the outcomes.
//
//   log -> message {position, opId, timeMs, requests} -> trial in a store write -> outcomes
//
//   - A message is an entry even if all of it is refused, so that `sequence` is equal on all replicas.
//   - Its position, and a hash over all messages so far, are stored in the write that applies it. A message at or before that position
//     changes nothing. One whose opId is remembered (recent-entries.ts) is counted and not applied: it was published twice.
//   - A request that fails half-way for a reason that all replicas have (a commit beyond `max_vectors`) is refused: the write is undone
//     and made again without it.
//   - Trouble of this replica (its disk, damaged data) decides nothing. It is thrown, and of the messages of that write nothing is applied.

import { isQuiverError, type QuiverError } from "@quiverdb/protocol/errors";
import { limits } from "@quiverdb/protocol/limits";
import { invariant } from "../base/invariant.ts";
import { isAlone, type LoggedRequest } from "../collection/accept.ts";
import { readHead } from "../collection/head.ts";
import { placeAfter, readPlace, writePlace } from "../collection/place.ts";
import { isRemembered } from "../collection/recent-entries.ts";
import type { Store, Writer } from "../storage/store.ts";
import { requestBytes, Trial, type TrialOptions, type WriteOutcome } from "./sequencer.ts";

export type OrderedMessage = {
  /** In the log. Ascending; there may be gaps. */
  readonly position: number;
  /** Counts the changes of the log. Never falls. */
  readonly epoch: number;
  /** 32 hex characters. A message that is published twice keeps its opId. */
  readonly opId: string;
  /** The time of everything that its requests do, in milliseconds since 1970. */
  readonly timeMs: number;
  /** CRC-32 of its bytes. */
  readonly crc32: number;
  /** Some are alone in their message (`isAlone`), as a commit, which makes a version of its own. */
  readonly requests: readonly LoggedRequest[];
};

/** Outcomes of a message's requests; undefined if it was applied before. */
export type Applied = { readonly position: number; readonly outcomes: WriteOutcome[] | undefined };

/**
 * Applies messages, in order, many in one store write.
 * @returns what became of them, in order; each part is durable. The next write is made when the caller asks for the next part
 * @throws storage_failed, storage_full, data_corrupted
 */
export function* applyOrdered(
  store: Store,
  messages: readonly OrderedMessage[],
  options: TrialOptions,
): Generator<Applied[]> {
  for (let from = 0; from < messages.length; ) {
    const end = groupEnd(messages, from);
    yield applyGroup(store, messages.slice(from, end), options);
    from = end;
  }
}

function applyGroup(store: Store, group: readonly OrderedMessage[], options: TrialOptions): Applied[] {
  /** Requests that failed half-way in a write that was undone. */
  const refused = new Map<LoggedRequest, QuiverError>();
  for (;;) {
    let failing: LoggedRequest | undefined;
    try {
      return store.write((writer) =>
        group.map((message) =>
          applyMessage(writer, message, options, refused, (request) => {
            failing = request;
          }),
        ),
      );
    } catch (error) {
      if (failing === undefined || !isQuiverError(error) || error.status >= 500) throw error;
      refused.set(failing, error);
    }
  }
}

/** @param onFailing told a request that fails half-way, before its error is thrown */
function applyMessage(
  writer: Writer,
  { position, epoch, opId, timeMs, crc32, requests }: OrderedMessage,
  options: TrialOptions,
  refused: ReadonlyMap<LoggedRequest, QuiverError>,
  onFailing: (request: LoggedRequest) => void,
): Applied {
  const place = readPlace(writer);
  if (position <= place.position) return { position, outcomes: undefined };
  invariant(
    requests.length === 1 || !requests.some(isAlone),
    `the message ${position} has other requests beside one that must be alone`,
  );
  const isRepeated = isRemembered(writer, readHead(writer).sequence, opId);
  const trial = new Trial(writer, timeMs, options);
  for (const request of isRepeated ? [] : requests) {
    const error = refused.get(request);
    if (error !== undefined) trial.refuse(error);
    else
      try {
        trial.request(request);
      } catch (failure) {
        onFailing(request);
        throw failure;
      }
  }
  trial.finish(opId, epoch);
  writePlace(writer, placeAfter(place, position, opId, crc32));
  return { position, outcomes: isRepeated ? undefined : trial.outcomes };
}

/** The end of the messages from `from` on that are written together. */
function groupEnd(messages: readonly OrderedMessage[], from: number): number {
  let end = from;
  let bytes = 0;
  do bytes += bytesOf(messages[end++]);
  while (
    end < messages.length &&
    end - from < limits.groupCommitRequestsMax &&
    bytes + bytesOf(messages[end]) <= limits.groupCommitBytesMax
  );
  return end;
}

const bytesOf = ({ requests }: OrderedMessage): number =>
  requests.reduce((bytes, request) => bytes + requestBytes(request), 0);
