// Can threads open a store whose commit failed in another thread?
//
// Runs under the disk shim, see failing-disks.test.ts: node broken-store.ts <directory of a collection> <control file of the shim> <rounds>
//
// In each round a commit fails, and the store is closed and opened again; the last one is the first after `rounds` in which an opening has
// been refused. Meanwhile two threads open it, read, and close it. Every one of them succeeds, or is told `not_ready`. Before `requireWorking`
// in lmdb.ts this crashed within seconds. The threads end before the process does: lmdb-js cannot throw in a thread that is being terminated,
// and aborts.

import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { isMainThread, Worker, workerData } from "node:worker_threads";
import { LmdbStore } from "@quiverdb/engine/storage/lmdb";
import { isQuiverError } from "@quiverdb/protocol/errors";
import { calls, errors, Faults } from "./disk-shim.ts";

type ThreadData = { readonly directory: string; readonly isOver: Int32Array };

const [, , directory = (workerData as ThreadData).directory, control = "", rounds = ""] = isMainThread
  ? process.argv
  : [];
const tables = Array.from({ length: 20 }, (_, number) => `table${number}`);
const key = new Uint8Array([1]);

if (isMainThread) await breakStore();
else await openUntil((workerData as ThreadData).isOver);

async function breakStore(): Promise<void> {
  let store = new LmdbStore(directory, tables);
  store.write((writer) => writer.put("table1", key, key));
  const faults = new Faults(control);
  const isOver = new Int32Array(new SharedArrayBuffer(4));
  const threads = [1, 2].map(() => {
    const data: ThreadData = { directory, isOver };
    return once(new Worker(new URL(import.meta.url), { workerData: data }), "exit");
  });
  let refused = 0;
  for (let round = 0; round < Number(rounds) || refused === 0; round++) {
    faults.set({ calls: calls.meta, files: 7, pass: 0, fail: 1, error: errors.ENOSPC });
    try {
      store.write((writer) => writer.put("table1", key, key));
    } catch (error) {
      if (!isQuiverError(error) || error.code !== "storage_failed") throw error;
    }
    if (!store.isBroken) throw new Error(`the store is not broken; ${faults.failed} calls failed`);
    faults.clear();
    await sleep(1);
    await store.close();
    for (;;) {
      const opened = opening();
      if (opened !== undefined) {
        store = opened;
        break;
      }
      refused++;
      await sleep(2);
    }
  }
  Atomics.store(isOver, 0, 1);
  await Promise.all(threads);
  await store.close();
  console.log(JSON.stringify({ refused }));
}

async function openUntil(isOver: Int32Array): Promise<void> {
  while (Atomics.load(isOver, 0) === 0) {
    const store = opening();
    for (let read = 0; read < 5 && store !== undefined; read++) {
      try {
        const readTxn = store.beginRead();
        readTxn.get("table1", key);
        readTxn.release();
      } catch (error) {
        mustBeNotReady(error);
      }
      await sleep(0);
    }
    await store?.close();
    await sleep(1);
  }
}

function opening(): LmdbStore | undefined {
  try {
    return new LmdbStore(directory, tables);
  } catch (error) {
    mustBeNotReady(error);
    return undefined;
  }
}

function mustBeNotReady(error: unknown): void {
  if (!isQuiverError(error) || error.code !== "not_ready") throw error;
}
