// How does the writer thread make changes?
//
// This thread makes every change of the database. It takes all waiting messages and passes those for one collection to the collection's
// sequencer (log/sequencer.ts), which makes them durable in as few log entries as possible. Then it replies. While it waits for the
// disk, the next requests queue up. So a slower disk gets larger entries, without any timer.
//
// Messages for one collection keep their order. Any other message runs after all writes that came before it.

import "../process/node-host.ts";
import { join } from "node:path";
import { parentPort, workerData } from "node:worker_threads";
import { isQuiverError, QuiverError } from "@quiverdb/protocol/errors";
import { release } from "../base/bytes.ts";
import { failpoint } from "../base/failpoint.ts";
import { invariant } from "../base/invariant.ts";
import type { WriteRequest } from "../collection/accept.ts";
import type { IndexDefinitions } from "../collection/apply.ts";
import {
  type CatalogRequest,
  type CollectionDefinition,
  catalogChange,
  keepCatalogAnswer,
} from "../collection/definition.ts";
import { prepareCatalog, prepareCollection } from "../collection/format.ts";
import { catalogTables, collectionTables } from "../collection/tables.ts";
import { applyOrdered, type OrderedMessage } from "../log/ordered.ts";
import { LocalSequencer, randomOpId, type TrialOptions, type WriteOutcome } from "../log/sequencer.ts";
import { collectAtRest } from "../process/collect-garbage.ts";
import { catalogDirectory, collectionsDirectory, syncStore } from "../process/data-directory.ts";
import { storageError } from "../storage/disk-error.ts";
import { LmdbStore, reopening } from "../storage/lmdb.ts";
import { type CallContext, Calls, later, type WireError, wireOf } from "./calls.ts";

//   database -> writer   ready       is it? Then the catalog is open
//                        command     one change; batches travel as transferred buffers
//   writer -> database   committed   after each log entry: the number of its requests
//                        broken      every thread must close and reopen this store before it is usable again (null means the catalog)

export type WriterStart = { dataDir: string; versionsKept: number };

/** Opens a collection's store, and creates it if it is missing. */
export type OpenStoreCommand = {
  to: "store";
  kind: "open";
  internalId: string;
  createdMs: number;
  definition: CollectionDefinition;
  /** What a new collection has. */
  indexes?: IndexDefinitions;
};

export type WriterCommand =
  | OpenStoreCommand
  | { to: "store"; kind: "close"; internalId: string }
  | { to: "catalogStore"; kind: "open" | "close" }
  | { to: "collection"; internalId: string; request: WriteRequest }
  | { to: "replica"; internalId: string; messages: readonly OrderedMessage[] }
  | { to: "catalog"; request: CatalogRequest }
  | { to: "writer"; kind: "stop" };

/** The answer to a command; to messages of a replicated log, what became of each (`AppliedMessage`). */
export type Written = { version: number; value: unknown };

/** What became of the requests of a message; `outcomes`: undefined if it was applied before. */
export type AppliedMessage = {
  readonly position: number;
  readonly outcomes:
    | readonly ({ ok: true; version: number; value: unknown } | { ok: false; error: WireError })[]
    | undefined;
};

export type CommittedCall = { readonly requests: number };
export type BrokenCall = { readonly internalId: string | null };

const port = parentPort;
invariant(port !== null, "the writer is not a worker thread");
const { dataDir, versionsKept } = workerData as WriterStart;

type OpenStore = {
  store: LmdbStore;
  path: string;
  /** Whether the state found at opening is durable. Until it is, nothing may be written on top of it. */
  isSynced: boolean;
};
type OpenCollectionStore = OpenStore & { sequencer: LocalSequencer; trial: TrialOptions };
/** A command and how it is answered. */
type Waiting<Command> = { readonly command: Command; readonly context: CallContext };
type Write = Waiting<Extract<WriterCommand, { to: "collection" }>>;

const stores = new Map<string, OpenCollectionStore>();
const waiting: Waiting<WriterCommand>[] = [];
let scheduled = false;

const calls = new Calls(port, {
  ready: () => null,
  command(command: WriterCommand, context) {
    waiting.push({ command, context });
    if (!scheduled) {
      scheduled = true;
      // Commands that have already arrived are delivered before the immediate runs, and so join its groups. An error that `drain` does not
      // turn into an answer is a bug. It ends this thread, and the owner then refuses all writes (writer.ts).
      setImmediate(async () => {
        await drain();
        scheduled = false;
      });
    }
    return later;
  },
});
const succeed = ({ context }: Waiting<WriterCommand>, value: unknown = null, version = 0) =>
  context.answer({ version, value } satisfies Written);
const fail = ({ context }: Waiting<WriterCommand>, cause: unknown) =>
  context.fail(
    isQuiverError(cause)
      ? cause
      : new QuiverError("internal", "The writer failed; nothing of the request was applied.", {}, { cause }),
  );

let catalog: OpenStore | null = null;
openCatalog();

function openCatalog(): void {
  const path = catalogDirectory(dataDir);
  const store = new LmdbStore(path, catalogTables);
  prepareCatalog(store);
  catalog = { store, path, isSynced: false };
  trySync(catalog);
}

/** Tries to sync. A failure is no error here, because the store stays readable. */
function trySync(open: OpenStore): void {
  try {
    mustSync(open);
  } catch {
    // The next write tries again, and fails with the error if the sync fails again.
  }
}

/** @throws storage_failed */
function mustSync(open: OpenStore): void {
  if (open.isSynced) return;
  try {
    syncStore(open.path);
  } catch (error) {
    throw new QuiverError(
      "storage_failed",
      "The disk failed to make the existing data durable; nothing of the request was applied. Send it again when the disk works.",
      {},
      { cause: error },
    );
  }
  open.isSynced = true;
  open.store.writeCommitMarker();
}

/** Notifies the owner if a write has left the store broken, so that every thread closes and reopens it. */
function reportBroken(open: OpenStore, internalId: string | null): void {
  if (open.store.isBroken) calls.tell("broken", { internalId } satisfies BrokenCall);
}

/** Applies all waiting messages. */
async function drain(): Promise<void> {
  let groups = new Map<string, Write[]>();
  const flush = () => {
    for (const [internalId, group] of groups) write(internalId, group);
    groups = new Map();
  };
  while (waiting.length > 0) {
    for (const each of waiting.splice(0)) {
      if (isWrite(each)) {
        const { internalId } = each.command;
        const group = groups.get(internalId);
        if (group) group.push(each);
        else groups.set(internalId, [each]);
      } else {
        flush();
        await administer(each);
      }
    }
    flush();
  }
}

const isWrite = (waits: Waiting<WriterCommand>): waits is Write => waits.command.to === "collection";

/** Writes the waiting requests of a collection, and replies to those of each log entry as soon as it is durable. */
function write(internalId: string, waits: readonly Write[]): void {
  let answered = 0;
  try {
    const open = stores.get(internalId);
    if (!open) throw new QuiverError("collection_not_found", "The collection was deleted meanwhile.");
    if (open.store.isBroken) throw reopening();
    mustSync(open);
    for (const outcomes of open.sequencer.write(waits.map(({ command }) => command.request))) {
      calls.tell("committed", { requests: outcomes.length } satisfies CommittedCall);
      failpoint("write:told");
      for (const outcome of outcomes) answer(waits[answered++], outcome);
      reportBroken(open, internalId);
      if (open.store.isBroken) throw reopening();
    }
  } catch (error) {
    for (const each of waits.slice(answered)) fail(each, error);
  }
  for (const { request } of waits.map(({ command }) => command))
    if ("batch" in request) release(request.batch);
}

function answer(waits: Write, outcome: WriteOutcome): void {
  if (outcome.ok) succeed(waits, outcome.value ?? null, outcome.version);
  else fail(waits, outcome.error);
}

async function administer(waits: Waiting<WriterCommand>): Promise<void> {
  const { command } = waits;
  try {
    switch (command.to) {
      case "catalog": {
        const { table, key, value } = catalogChange(command.request);
        const isNote = "isNote" in command.request;
        if (catalog === null || catalog.store.isBroken) throw reopening();
        mustSync(catalog);
        failpoint("catalog:begin");
        try {
          catalog.store.write((writer) => {
            if (value === undefined) writer.delete(table, key);
            else if (!isNote || writer.get(table, key) !== undefined) writer.put(table, key, value);
            if ("answer" in command.request && command.request.answer !== undefined)
              keepCatalogAnswer(writer, command.request.answer);
          });
        } finally {
          reportBroken(catalog, null);
        }
        failpoint("catalog:durable");
        break;
      }
      case "replica":
        succeed(waits, applyMessages(command.internalId, command.messages));
        return;
      case "catalogStore":
        if (command.kind === "open") openCatalog();
        else {
          const closing = catalog;
          catalog = null;
          await closing?.store.close();
        }
        break;
      case "store":
        if (command.kind === "open") await openStore(command);
        else await closeStore(command.internalId);
        break;
      case "writer":
        for (const internalId of [...stores.keys()]) await closeStore(internalId);
        await catalog?.store.close();
        succeed(waits);
        port?.close();
        return;
      default:
        throw new Error(`Invariant broken: '${command.to}' is not for the administration`);
    }
    succeed(waits);
  } catch (error) {
    fail(waits, error);
  }
}

/** @throws storage_failed, storage_full, data_corrupted: then messages of the last store write are not applied */
function applyMessages(internalId: string, messages: readonly OrderedMessage[]): AppliedMessage[] {
  const open = stores.get(internalId);
  if (!open) throw new QuiverError("collection_not_found", "The collection was deleted meanwhile.");
  if (open.store.isBroken) throw reopening();
  mustSync(open);
  const applied: AppliedMessage[] = [];
  try {
    for (const part of applyOrdered(open.store, messages, open.trial)) {
      let requests = 0;
      for (const { position, outcomes } of part) {
        requests += outcomes?.length ?? 0;
        applied.push({
          position,
          outcomes: outcomes?.map((outcome) =>
            outcome.ok ? outcome : { ok: false, error: wireOf(outcome.error) },
          ),
        });
      }
      calls.tell("committed", { requests } satisfies CommittedCall);
    }
  } finally {
    reportBroken(open, internalId);
  }
  return applied;
}

async function openStore({ internalId, createdMs, definition, indexes }: OpenStoreCommand): Promise<void> {
  invariant(!stores.has(internalId), `the store ${internalId} is opened twice`);
  const path = join(collectionsDirectory(dataDir), internalId);
  let store: LmdbStore | undefined;
  try {
    store = new LmdbStore(path, collectionTables);
    const trial = { versionsKept, maxVectors: definition.maxVectors, shard: definition.shard };
    const sequencer = new LocalSequencer(store, { ...trial, clock: Date.now, newOpId: randomOpId });
    const open: OpenCollectionStore = { store, path, sequencer, trial, isSynced: false };
    failpoint("store:opened");
    prepareCollection(store, createdMs, definition, indexes);
    failpoint("store:prepared");
    trySync(open);
    stores.set(internalId, open);
  } catch (error) {
    await store?.close();
    throw storageError(error, { path });
  }
}

async function closeStore(internalId: string): Promise<void> {
  const open = stores.get(internalId);
  stores.delete(internalId);
  await open?.store.close();
}

collectAtRest();
