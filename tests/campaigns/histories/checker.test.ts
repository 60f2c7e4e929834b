// Does the checker of histories accept what a serial order explains, and nothing else?

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { absent, check, type Operation, present, type Read, type Write } from "./checker.ts";

const write = (begins: number, ends: number, sets: Write["sets"], more: Partial<Write> = {}): Write => ({
  kind: "write",
  client: 0,
  what: "write",
  begins,
  ends,
  sets,
  needs: [],
  isKnown: true,
  ...more,
});
const read = (begins: number, ends: number, saw: Read["saw"]): Read => ({
  kind: "read",
  client: 1,
  what: "read",
  begins,
  ends,
  saw,
});
const explained = (history: readonly Operation[]) => check(history, 3).isExplained;

describe("a history is explained", () => {
  it("by an order of what ran at once", () => {
    // The writes overlap: a read may see either of them last, as long as later reads agree.
    const writes = [write(0, 10, [[0, 1]]), write(1, 9, [[0, 2]])];
    expect(explained([...writes, read(11, 12, [[0, 1]]), read(13, 14, [[0, 1]])])).toBe(true);
    expect(explained([...writes, read(11, 12, [[0, 2]]), read(13, 14, [[0, 2]])])).toBe(true);
    expect(explained([...writes, read(11, 12, [[0, 1]]), read(13, 14, [[0, 2]])])).toBe(false);
  });

  it("by a write that a killed server may have applied", () => {
    const lost = write(0, 5, [[0, 1]], { isKnown: false });
    expect(explained([lost, read(6, 7, [[0, 1]])])).toBe(true);
    expect(explained([lost, read(6, 7, [[0, absent]])])).toBe(true);
    // It cannot take effect after the server was dead.
    expect(explained([lost, read(6, 7, [[0, absent]]), read(8, 9, [[0, 1]])])).toBe(false);
  });
});

describe("a broken history is caught:", () => {
  const both = write(0, 1, [
    [0, 1],
    [1, 1],
  ]);

  it("an acknowledged write is not seen", () => {
    expect(explained([both, read(2, 3, [[0, absent]])])).toBe(false);
  });

  it("half of a transaction is seen", () => {
    const half: Read["saw"] = [
      [0, 1],
      [1, absent],
    ];
    const verdict = check([write(0, 9, both.sets), read(2, 3, half)], 3);
    expect(verdict).toMatchObject({
      isExplained: false,
      why: expect.stringContaining("it was never the state"),
    });
  });

  it("a client sees an older state than before", () => {
    const history = [write(0, 20, [[0, 1]]), read(2, 3, [[0, 1]]), read(4, 5, [[0, absent]])];
    expect(check(history, 3)).toMatchObject({
      isExplained: false,
      why: expect.stringContaining("the read version was too old"),
    });
  });

  it("two reads see two writes in different orders", () => {
    const writes = [write(0, 9, [[0, 1]]), write(0, 9, [[1, 2]])];
    const first: Read["saw"] = [
      [0, 1],
      [1, absent],
    ];
    const second: Read["saw"] = [
      [0, absent],
      [1, 2],
    ];
    expect(explained([...writes, read(1, 8, first)])).toBe(true);
    expect(explained([...writes, read(1, 8, first), read(2, 7, second)])).toBe(false);
  });

  it("an unknown value, or an aborted transaction, is seen", () => {
    expect(explained([both, read(2, 3, [[2, 7]])])).toBe(false);
  });

  it("a deletion of a missing key succeeds, or a key exists after its deletion", () => {
    const deletion = write(2, 3, [[0, absent]], { needs: [0] });
    expect(explained([both, deletion, read(4, 5, [[0, absent]])])).toBe(true);
    expect(explained([deletion])).toBe(false);
    expect(explained([both, deletion, read(4, 5, [[0, present]])])).toBe(false);
  });
});

it("a serial history with extended times is explained, but not if one read is changed to a state of another time", () => {
  const step = fc.record({
    isWrite: fc.boolean(),
    keys: fc.uniqueArray(fc.nat(2), { minLength: 1 }),
    before: fc.double({ min: 0, max: 3, noNaN: true }),
    after: fc.double({ min: 0, max: 3, noNaN: true }),
  });
  fc.assert(
    fc.property(fc.array(step, { minLength: 2, maxLength: 40 }), fc.nat(), (steps, pick) => {
      const state = [absent, absent, absent];
      const history = steps.map(({ isWrite, keys, before, after }, i): Operation => {
        if (!isWrite) return read(i - before, i + after, [...state.entries()]);
        for (const key of keys) state[key] = i + 1;
        return write(
          i - before,
          i + after,
          keys.map((key) => [key, i + 1]),
        );
      });
      expect(explained(history)).toBe(true);
      const last = read(100, 101, [...state.entries()]);
      expect(explained([...history, last])).toBe(true);
      const key = pick % 3;
      const changed = last.saw.map(([k, stamp]) => [k, k === key ? stamp + 1_000 : stamp] as const);
      expect(explained([...history, read(100, 101, changed)])).toBe(false);
    }),
    { numRuns: 300 },
  );
});
