// How are changes sent as server-sent events?
//
//   id: <place>       what `since` takes, so that a client that comes back with `Last-Event-ID` gets every change once
//   event: upsert | delete
//   data: <the change, as a page has it>
//
// Pages are read one after the other, as with long polls. While nothing is written, the place alone is sent every so often: it keeps the
// connection open, and the client's place within the reach of the change log. The stream ends when the server stops, or with an event `error`
// when the changes cannot be read any more.

import { Readable } from "node:stream";
import { isQuiverError } from "@quiverdb/protocol/errors";
import { errorAnswer } from "../error-answer.ts";
import { type Change, changeJson } from "./encode.ts";

export type Page = {
  readonly changes: readonly (Change & { readonly place: string })[];
  readonly next: string;
};

export type EventSource = {
  /** Reads the next page. @param waitMs how long an empty one waits for a write */
  read(since: string, waitMs: number): Promise<Page>;
  /** Whether the server stops. */
  readonly isEnding: () => boolean;
  readonly requestId: string;
};

/** How long an empty page waits: so long a stop of the server may have to wait. */
const waitMs = 1_000;
/** After how many empty pages the place is sent. */
const quietPages = 5;

/** The changes from a page on, as an endless stream. */
export const eventStream = (first: Page, source: EventSource): Readable =>
  Readable.from(eventsFrom(first, source), { objectMode: false });

async function* eventsFrom(first: Page, { read, isEnding, requestId }: EventSource): AsyncGenerator<string> {
  yield "retry: 1000\n\n";
  let page = first;
  for (let quiet = 0; !isEnding(); quiet = page.changes.length > 0 ? 0 : quiet + 1) {
    for (const { place, ...change } of page.changes) yield eventOf(place, change);
    if (page.changes.length > 0 || quiet % quietPages === quietPages - 1) yield `id: ${page.next}\n\n`;
    try {
      page = await read(page.next, waitMs);
    } catch (error) {
      if (!isQuiverError(error, "shutting_down")) {
        const { body } = errorAnswer(error, undefined, requestId);
        yield `event: error\ndata: ${JSON.stringify(body)}\n\n`;
      }
      return;
    }
  }
}

/** The exact text of metadata may have line ends between its parts, each of which begins a new field. */
const eventOf = (place: string, change: Change): string =>
  `id: ${place}\nevent: ${change.op}\ndata: ${changeJson(change).replaceAll(/\r\n|\r|\n/g, "\ndata: ")}\n\n`;
