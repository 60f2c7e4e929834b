// What has changed in all shards since a version?
//
//   place   V        after all changes of version V
//           V.S.N    after N changes that version V + 1 made in shard S, and all that it made in the shards before
//
// Each shard tells its changes after a place of its own. Those of one version come shard by shard, so that a page can end anywhere.

import { fieldError } from "@quiverdb/protocol/errors";
import { limits } from "@quiverdb/protocol/limits";
import type { Deadline } from "../../base/deadline.ts";
import { StoredVector } from "../../collection/reading.ts";
import type { ChangesPage } from "../contract.ts";
import type { Shards } from "./shards.ts";

type Request = { readonly since?: string; readonly limit?: number; readonly wait_ms?: number };
type Place = { readonly version: number; readonly shard: number; readonly done: number };

function readPlace(given: string): Place {
  const [, version, shard = "0", done = "0"] = /^(\d{1,16})(?:\.(\d{1,5})\.(\d{1,10}))?$/.exec(given) ?? [];
  if (version !== undefined) return { version: Number(version), shard: Number(shard), done: Number(done) };
  throw fieldError(
    "since",
    "the number of a version, or what `next` was",
    given.slice(0, 80),
    `since must be the number of a version, or the \`next\` of an answer; received '${given.slice(0, 80)}'.`,
  );
}

/** Where a shard goes on. */
const ofShard = ({ version, shard, done }: Place, number: number): string =>
  number < shard
    ? String(version + 1)
    : number > shard || done === 0
      ? String(version)
      : `${version}.${done}`;

export async function mergedChanges(
  shards: Shards,
  { since = "0", limit = limits.scrollDefault, wait_ms: waitMs = 0 }: Request,
  deadline: Deadline,
): Promise<ChangesPage> {
  const from = readPlace(since);
  const endMs = performance.now() + waitMs;
  const { state } = shards.home.parts;
  for (;;) {
    const page = await pageFrom(shards, from, limit, deadline);
    const leftMs = endMs - performance.now();
    if (page.changes.length > 0 || leftMs <= 0) return page;
    if (state.writtenVersion <= page.current_version) await state.nextWrite(leftMs, deadline);
  }
}

async function pageFrom(
  shards: Shards,
  from: Place,
  limit: number,
  deadline: Deadline,
): Promise<ChangesPage> {
  // What the other shards have not applied yet is on a later page.
  const { changes: own } = shards.home.parts;
  const { current_version: current } = await own.read({ since: String(from.version), limit: 1 }, deadline);
  const options = { notBefore: current };
  const pages = await shards.all(
    "changes",
    (number) => ({ since: ofShard(from, number), limit }),
    deadline,
    options,
  );
  /** Up to which version each shard has told all. */
  const toldTo = pages.map(({ next }) => Number(next.split(".", 1)[0]));
  const changes: ChangesPage["changes"] = [];
  let place = from;
  for (let version = from.version + 1; version <= current; version++) {
    for (const [shard, page] of pages.entries()) {
      if (version === from.version + 1 && shard < from.shard) continue;
      for (const change of page.changes) {
        if (change.version !== version) continue;
        if (changes.length === limit) return pageOf(changes, place, current);
        const [, done = "0"] = change.place.split(".");
        place = { version: version - 1, shard, done: Number(done) };
        const { vector, ...rest } = change;
        changes.push({
          ...rest,
          place: textOf(place),
          ...(vector && { vector: StoredVector.of(vector) }),
        });
      }
      // The page of this shard ends in the middle of the version.
      if (toldTo[shard] < version) return pageOf(changes, place, current);
      place = { version: version - 1, shard: shard + 1, done: 0 };
    }
    place = { version, shard: 0, done: 0 };
  }
  return pageOf(changes, place, current);
}

const textOf = ({ version, shard, done }: Place): string =>
  shard === 0 && done === 0 ? String(version) : `${version}.${shard}.${done}`;

const pageOf = (changes: ChangesPage["changes"], place: Place, current: number): ChangesPage => ({
  changes,
  next: textOf(place),
  current_version: current,
});
