import { rmSync } from "node:fs";
import { randomNumbers } from "@quiverdb/kernels/random";
import { expect, it } from "vitest";
import { TemporaryFolder } from "../campaign.ts";
import { ServerProcess } from "../server-process.ts";
import { keepFailure, keptError, replayFailure } from "./kept-failure.ts";
import { Ledger, type PieceState } from "./ledger.ts";
import { begin, type Load, upsert } from "./load.ts";
import { verify } from "./verify.ts";

it("a failure is saved with its data and ledger, and fails again when it is replayed", async () => {
  using folder = new TemporaryFolder("kept");
  const data = folder.join("data");
  const kept: string[] = [];
  const server = new ServerProcess(data);
  try {
    const load: Load = { ledger: new Ledger(), random: randomNumbers(1), acknowledged: {}, stamp: 0 };
    await begin(load, await server.client(), 2, 20);
    await server.kill();
    const { ledger } = load;
    const facts = { campaign: "kill", seed: 1 };
    kept.push(keepFailure({ ...facts, message: "none" }, { ledger, data }));
    expect((await replayFailure(kept[0])).records).toBeGreaterThan(0);
    // The same data with a different ledger.
    for (const piece of ledger.pieces) piece.settle(null);
    const error = keptError(new Error("it is wrong"), facts, { ledger, data });
    kept.push(/Kept in (\S+);/.exec(error.message)?.[1] as string);
    expect(error.message).toMatch(/^seed 1: it is wrong\n[\s\S]*--replay /);
    await expect(replayFailure(kept[1])).rejects.toThrow("should not be there");
    // A replay does not change the saved failure.
    expect((await replayFailure(kept[0])).records).toBeGreaterThan(0);
  } finally {
    await server.kill();
    for (const each of kept) rmSync(each, { recursive: true, force: true });
  }
}, 120_000);

// Seen once: the kill left a patch without an answer that was applied and changed nothing.
it("a change without an answer that leaves all records as they were may have made a version, or not", async () => {
  using folder = new TemporaryFolder("kept");
  await using server = new ServerProcess(folder.join("data"));
  const client = await server.client();
  const load: Load = { ledger: new Ledger(), random: randomNumbers(1), acknowledged: {}, stamp: 0 };
  await begin(load, client, 2, 20);
  const [piece] = load.ledger.of("shared");
  const state = piece.state as PieceState;
  await upsert(load, client.collection("shared"), piece, state);
  await verify(load.ledger, client, load.random);
  const [{ record }] = (piece.state as PieceState).records.values();
  const lost = (isApplied: boolean) =>
    piece.attempt(load.ledger.clock, piece.state, true, async () => {
      if (isApplied) await client.collection("shared").patch(record.id, { stamp: record.metadata?.stamp });
      throw new Error("no answer");
    });
  for (const isApplied of [true, false, true]) {
    await expect(lost(isApplied)).rejects.toThrow("no answer");
    await verify(load.ledger, client, load.random);
  }
  await client.collection("shared").patch(record.id, { stamp: record.metadata?.stamp });
  await expect(verify(load.ledger, client, load.random)).rejects.toThrow("0 to 0 versions were made");
}, 120_000);
