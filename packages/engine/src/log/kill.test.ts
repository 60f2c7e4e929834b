// A replica that is killed at random moments while it applies a log finally has the state that the log defines.

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { randomNumbers } from "@quiverdb/kernels/random";
import { expect, it } from "vitest";
import { runAndKill } from "../../test/database/killed-process.ts";
import { messagesOf, prepared, read, record, type Step, stateOf } from "../../test/log/histories.ts";
import { readHead } from "../collection/head.ts";
import { collectionTables } from "../collection/tables.ts";
import { LmdbStore } from "../storage/lmdb.ts";
import { applyOrdered } from "./ordered.ts";

const kills = 8;
const groups = 1_200;
const program = new URL("../../test/log/replaying-process.ts", import.meta.url);

function randomGroups(next: () => number): Step[][] {
  const below = (n: number) => Math.floor(next() * n);
  const records = () =>
    Array.from({ length: 1 + below(20) }, () => ({ id: below(60), x: below(4), what: below(8) }));
  const steps: (() => Step)[] = [
    () => ({ do: "upsert", records: records() }),
    () => ({ do: "delete", id: below(60) }),
    () => ({ do: "begin" }),
    () => ({ do: "stage", records: records() }),
    () => ({ do: "commit" }),
    () => ({ do: "abort" }),
    () => ({ do: "createIndex", index: "sparse" }),
    () => ({ do: "deleteIndex", index: "sparse" }),
  ];
  return Array.from({ length: groups }, () => Array.from({ length: 1 + below(3) }, () => steps[below(8)]()));
}

it(`[L2] ${kills} kills while a log is applied, with messages sent again after each, do not change the resulting state`, async () => {
  const root = mkdtempSync(join(tmpdir(), "quiver-replay-kill-"));
  const directory = join(root, "store");
  let store: LmdbStore | undefined;
  try {
    const { log, states } = record({
      groups: randomGroups(randomNumbers(7)),
      maxVectors: null,
      versionsKept: 20,
    });
    const behindLengths = log.flatMap((bytes) => {
      const length = Buffer.alloc(4);
      length.writeUInt32LE(bytes.length);
      return [length, bytes];
    });
    writeFileSync(`${directory}.log`, Buffer.concat(behindLengths));
    await prepared(new LmdbStore(directory, collectionTables)).close();
    let applied = 0;
    for (let kill = 0; kill < kills; kill++) {
      const acknowledged = await runAndKill(program, directory, applied + 1, 20 + 23 * kill);
      store = new LmdbStore(directory, collectionTables);
      const { sequence } = read(store, readHead);
      // All acknowledged messages, and perhaps, as a whole, the one whose output line the kill cut off.
      const known = Math.max(acknowledged, applied);
      expect([known, known + 1]).toContain(sequence);
      expect(stateOf(store)).toEqual(states[sequence]);
      applied = sequence;
      await store.close();
    }
    expect(applied).toBeGreaterThan(kills);
    store = new LmdbStore(directory, collectionTables);
    for (const _ of applyOrdered(store, messagesOf(log), { maxVectors: null, versionsKept: 20 }));
    expect(stateOf(store)).toEqual(states[log.length]);
  } finally {
    await store?.close();
    rmSync(root, { recursive: true, force: true });
  }
});
