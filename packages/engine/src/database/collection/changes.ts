// What has changed since a version?
//
// The change log says which ordinals each version opened, and which ids it deleted. A record that was replaced since is known only while an
// earlier version needs it (history.ts): without history a reader gets each record's latest state, and every deletion.
//
//   place   V      after all changes of version V
//           V.N    after N changes of version V + 1

import { fieldError, QuiverError } from "@quiverdb/protocol/errors";
import { limits } from "@quiverdb/protocol/limits";
import { text, toHex } from "../../base/bytes.ts";
import { type CallOptions, Deadline } from "../../base/deadline.ts";
import type { Steps } from "../../base/steps.ts";
import { readHead } from "../../collection/head.ts";
import { storedAt } from "../../collection/history.ts";
import { vectorOf } from "../../collection/reading.ts";
import { RecordReader } from "../../collection/record.ts";
import { oldestVersion, readGone, readVersion } from "../../collection/versions.ts";
import type { ReadTransaction } from "../../storage/store.ts";
import type { ChangesPage } from "../contract.ts";
import type { CollectionState } from "./state.ts";

export type ChangesRequest = {
  readonly since?: string | undefined;
  readonly limit?: number | undefined;
  readonly wait_ms?: number | undefined;
};

type Place = { readonly version: number; readonly done: number };
type StoredChange = ChangesPage["changes"][number];

/** Bytes of records of one page, about. */
const pageBytes = 8 * 1024 * 1024;

export class Changes {
  readonly #state: CollectionState;

  constructor(state: CollectionState) {
    this.#state = state;
  }

  read(request: ChangesRequest, options?: CallOptions): Promise<ChangesPage> {
    return this.#state.gate.pass(async () => {
      const since = readPlace(request.since ?? "0");
      const { limit = limits.scrollDefault, wait_ms: waitMs = 0 } = request;
      const deadline = Deadline.of(options);
      const endMs = performance.now() + waitMs;
      for (;;) {
        this.#state.gate.assertOpen();
        // What is written from here on ends the wait, also while the page is read.
        const readTxn = this.#state.newest();
        let page: ChangesPage;
        try {
          page = await deadline.task.finish(pageSince(readTxn, since, limit));
        } finally {
          readTxn.release();
        }
        const leftMs = endMs - performance.now();
        if (page.changes.length > 0 || leftMs <= 0) return page;
        if (this.#state.writtenVersion <= page.current_version) await this.#state.nextWrite(leftMs, deadline);
      }
    });
  }
}

function readPlace(given: string): Place {
  const [, version, done = "0"] = /^(\d{1,16})(?:\.(\d{1,10}))?$/.exec(given) ?? [];
  if (version !== undefined) return { version: Number(version), done: Number(done) };
  throw fieldError(
    "since",
    "the number of a version, or what `next` was",
    given.slice(0, 80),
    `since must be the number of a version, or the \`next\` of an answer; received '${given.slice(0, 80)}'.`,
  );
}

function* pageSince(readTxn: ReadTransaction, since: Place, limit: number): Steps<ChangesPage> {
  const head = readHead(readTxn);
  if (since.version > head.version)
    throw new QuiverError(
      "version_not_found",
      `There is no version ${since.version} yet: the current one is ${head.version}.`,
      { since: since.version, current_version: head.version },
    );
  const oldest = oldestVersion(readTxn);
  if (since.version < oldest - 1)
    throw new QuiverError(
      "version_gone",
      `The change log begins with version ${oldest} and no longer has what version ${since.version + 1} changed. Read the collection (an export), and go on from its version.`,
      { since: since.version, oldest_version: oldest, current_version: head.version },
    );
  const changes: StoredChange[] = [];
  let place = since;
  let bytes = 0;
  while (place.version < head.version) {
    const version = place.version + 1;
    let { done } = place;
    for (const { at, change } of changesOf(readTxn, version, done)) {
      if (changes.length >= limit || bytes >= pageBytes)
        return pageOf(changes, { version: place.version, done }, head.version);
      changes.push({ ...change, place: textOf({ version: place.version, done: at }) });
      bytes += change.vector?.bytes ?? 0;
      done = at;
      if (changes.length % 64 === 0) yield;
    }
    place = { version, done: 0 };
    yield;
  }
  return pageOf(changes, place, head.version);
}

const textOf = ({ version, done }: Place): string => (done === 0 ? String(version) : `${version}.${done}`);

const pageOf = (changes: StoredChange[], place: Place, current: number): ChangesPage => ({
  changes,
  next: textOf(place),
  current_version: current,
});

type Placed = { readonly at: number; readonly change: Omit<StoredChange, "place"> };

/**
 * The changes that a version made: first written records, then deletions. A change has its place in its version, from 1: by the ordinal that was
 * opened, behind them by the place among the deleted ids. So it stays where it is, whatever is no longer kept.
 * @param after changes at later places only
 */
function* changesOf(readTxn: ReadTransaction, version: number, after: number): Generator<Placed> {
  const entry = readVersion(readTxn, version);
  if (entry === undefined) return;
  const { firstOrdinal, opened } = entry;
  const written = new Set<string>();
  for (let i = 0; i < opened; i++) {
    const stored = storedAt(readTxn, firstOrdinal + i);
    if (stored === undefined) continue;
    written.add(toHex(new RecordReader(stored.record).idBytes));
    if (i < after) continue;
    const vector = vectorOf(readTxn, stored);
    yield { at: i + 1, change: { version, op: "upsert", id: vector.id, vector } };
  }
  let at = opened;
  for (const id of readGone(readTxn, version))
    if (++at > after && !written.has(toHex(id)))
      yield { at, change: { version, op: "delete", id: text(id) } };
}
