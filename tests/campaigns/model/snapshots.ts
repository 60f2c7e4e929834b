// Which snapshots should exist with which contents, and does the server agree?
//
// A snapshot of the model is a copy of its state. An incremental one is based on an earlier one of the same name, and is restored with the
// whole chain before it.

import { deepStrictEqual as same } from "node:assert/strict";
import { createHash } from "node:crypto";
import type { OperationName } from "@quiverdb/engine/operations/operations";
import type { Snapshot } from "@quiverdb/protocol/shapes/snapshot";
import type { ModelCollection } from "../../model.ts";

/** The contents of a collection in a snapshot. */
export type Kept = {
  readonly model: ModelCollection;
  /** Whether its text index has positions. */
  readonly positions: boolean;
};

type Taken = {
  /** The collection's name in the sequence. */
  readonly name: string;
  /** The snapshot as the server described it. */
  readonly told: Snapshot;
  readonly since: Taken | null;
  readonly kept: Kept;
  isThere: boolean;
};

/** How the snapshots send requests to the server. */
export type Asking = {
  /** Asserts "ok" or one of these error codes. */
  expect(
    expected: string | readonly string[],
    route: OperationName,
    name: string,
    params?: Record<string, string>,
    body?: unknown,
    // biome-ignore lint/suspicious/noExplicitAny: answers of all operations are looked into.
  ): Promise<{ readonly status: number; readonly json: any }>;
  /** The raw response. @param file the request's body */
  send(
    route: OperationName,
    params: Record<string, string>,
    file?: Uint8Array<ArrayBuffer>,
  ): Promise<Response>;
  /** The server's name of a collection of the sequence. */
  fullName(name: string): string;
};

export class Snapshots {
  readonly #ask: Asking;
  readonly #taken: Taken[] = [];

  constructor(ask: Asking) {
    this.#ask = ask;
  }

  async take(name: string, isIncremental: boolean, { model, positions }: Kept): Promise<void> {
    const since = isIncremental ? this.#of(name).at(-1) : undefined;
    const asked = since ? { since_version: since.told.version_number, since_hash: since.told.hash } : {};
    const { versions } = (await this.#ask.expect("ok", "listVersions", name)).json;
    // A collection that was recreated, or replaced by a restore, may have another history.
    const has = (version: { version_number: number; hash: string }) =>
      version.version_number === asked.since_version && version.hash === asked.since_hash;
    const expected = since && !versions.some(has) ? ["invalid_request", "version_not_kept"] : "ok";
    const { status, json: told } = await this.#ask.expect(expected, "createSnapshot", name, {}, asked);
    if (status !== 201) return;
    const { id, size_bytes, sha256, timestamp, records_stored, ...rest } = told as Snapshot;
    same(rest, {
      collection_name: this.#ask.fullName(name),
      version_number: model.version,
      hash: versions[0].hash,
      vector_count: model.records.size,
      since_version: asked.since_version ?? null,
      since_hash: asked.since_hash ?? null,
    });
    if (!since) same(records_stored, model.records.size);
    const kept = { model: model.copy(), positions };
    this.#taken.push({ name, told, since: since ?? null, kept, isThere: true });
  }

  /** @returns the new contents of the collection of this name; undefined if it must be unchanged */
  async restore(name: string, pick: number, overwrite: boolean, isTaken: boolean): Promise<Kept | undefined> {
    const chosen = this.#pick(pick, this.#taken);
    if (!chosen) return undefined;
    const chain: Taken[] = [];
    for (let each: Taken | null = chosen; each; each = each.since) chain.unshift(each);
    const isWhole = chain.every(({ isThere }) => isThere);
    const expected = !isWhole
      ? "snapshot_not_found"
      : isTaken && !overwrite
        ? "collection_already_exists"
        : "ok";
    const body = { snapshots: chain.map(({ told }) => told.id), overwrite };
    const { json } = await this.#ask.expect(expected, "restoreCollection", name, {}, body);
    if (expected !== "ok") return undefined;
    const { version_number, hash, vector_count } = chosen.told;
    same(json, { name: this.#ask.fullName(name), version_number, hash, vector_count });
    return { ...chosen.kept, model: chosen.kept.model.copy() };
  }

  /** Downloads the file of a snapshot and uploads it again, which makes another snapshot with the same contents. */
  async carry(pick: number): Promise<void> {
    const chosen = this.#pick(pick, this.#there());
    if (!chosen) return;
    const { told } = chosen;
    const params = { collection_id: told.collection_name, snapshot_id: told.id };
    const answer = await this.#ask.send("downloadSnapshot", params);
    const file = new Uint8Array(await answer.arrayBuffer());
    const sha256 = createHash("sha256").update(file).digest("hex");
    same(
      [answer.status, file.length, sha256, answer.headers.get("x-quiver-sha256")],
      [200, told.size_bytes, told.sha256, told.sha256],
    );
    const uploaded = await this.#ask.send("uploadSnapshot", {}, file);
    const again = (await uploaded.json()) as Snapshot;
    same([uploaded.status, again], [201, { ...told, id: again.id }]);
    this.#taken.push({ ...chosen, told: again });
  }

  async drop(pick: number): Promise<void> {
    const chosen = this.#pick(pick, this.#there());
    if (!chosen) return;
    await this.#delete(chosen);
    await this.#compare(chosen.name);
  }

  async #delete(taken: Taken): Promise<void> {
    await this.#ask.expect("ok", "deleteSnapshot", taken.name, { snapshot_id: taken.told.id });
    taken.isThere = false;
  }

  #there(): Taken[] {
    return this.#taken.filter(({ isThere }) => isThere);
  }

  #of(name: string): Taken[] {
    return this.#there().filter((each) => each.name === name);
  }

  #pick(pick: number, of: readonly Taken[]): Taken | undefined {
    return of[pick % of.length];
  }

  /** Checks the list of a collection that may no longer exist. */
  async #compare(name: string, isTaken = false): Promise<void> {
    const own = this.#of(name);
    // The caller may not know whether the collection exists; without snapshots it matters.
    if (own.length === 0 && !isTaken) return;
    const { json } = await this.#ask.expect("ok", "listSnapshots", name);
    same([byId(json.snapshots), json.running], [byId(own.map(({ told }) => told)), []]);
  }

  /** Checks the list of an existing collection. */
  compare(name: string): Promise<void> {
    return this.#compare(name, true);
  }

  /** At the end of a sequence, when its collections are deleted: the snapshots still exist, and are deleted. */
  async end(names: readonly string[]): Promise<void> {
    const { json } = await this.#ask.expect("ok", "listAllSnapshots", "");
    const ours = new Set(names.map((name) => this.#ask.fullName(name)));
    same(
      byId((json.snapshots as Snapshot[]).filter(({ collection_name }) => ours.has(collection_name))),
      byId(this.#there().map(({ told }) => told)),
    );
    for (const each of this.#there()) {
      const params = { snapshot_id: each.told.id };
      same((await this.#ask.expect("ok", "getSnapshot", each.name, params)).json, each.told);
    }
    for (const each of this.#there()) await this.#delete(each);
    for (const name of names) await this.#ask.expect("collection_not_found", "listSnapshots", name);
  }
}

const byId = (list: readonly Snapshot[]) => [...list].sort((a, b) => (a.id < b.id ? -1 : 1));
