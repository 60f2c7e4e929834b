import { existsSync } from "node:fs";
import { setTimeout } from "node:timers/promises";
import { afterEach, expect, test, vi } from "vitest";
import { command, inLanes, TemporaryFolder } from "./campaign.ts";
import type { Figures } from "./figures.ts";

/** A campaign that counts to a number, and what it has written. */
function counting(args: readonly string[]): Promise<[command: string, figures: Figures][]> {
  const written: [string, Figures][] = [];
  const running = command(
    {
      name: "counting",
      options: { to: 3, only: "", isShort: false },
      counts: () => ({ sum: 0 }),
      run: async ({ to, seed }, counts) => {
        if (to < 0) throw new Error("it cannot count backwards");
        counts.sum += to;
        return { sum: counts.sum, seed };
      },
      isWhole: ({ to }, { sum }) => sum >= to,
      write: (repeat, figures) => void written.push([repeat, figures]),
    },
    [...args],
  );
  return running.then(() => written);
}

afterEach(() => {
  process.exitCode = 0;
});

test("a campaign writes its figures with the command that repeats it", async () => {
  expect(await counting(["--seed", "7", "--to", "5", "--only", "a b", "--figures"])).toEqual([
    ['npm run campaign counting -- --seed 7 --to 5 --only "a b"', { sum: 5, seed: 7 }],
  ]);
  expect(await counting(["--seed", "7"])).toEqual([]);
});

test("a tally continues the counts of earlier runs", async () => {
  using folder = new TemporaryFolder("tally");
  const args = ["--seed", "7", "--tally", folder.join("tally"), "--write"];
  await counting(args);
  expect(await counting(args)).toEqual([[expect.any(String), { sum: 6, seed: 7 }]]);
});

test("a violation ends a campaign with exit code 1, and writes nothing", async () => {
  const printed = vi.spyOn(process.stdout, "write").mockReturnValue(true);
  try {
    expect(await counting(["--seed", "7", "--to=-1", "--figures"])).toEqual([]);
    expect(printed).toHaveBeenLastCalledWith(
      expect.stringMatching(/^FAILED with seed 7: Error: it cannot count/),
    );
  } finally {
    printed.mockRestore();
  }
  expect(process.exitCode).toBe(1);
});

test("an option that is not a number where one is needed, or unknown, is refused", async () => {
  await expect(counting(["--to", "many"])).rejects.toThrow('--to needs a number, not "many"');
  await expect(counting(["--ot", "5"])).rejects.toThrow("--ot");
});

test("lanes share the items, and none begins another one after a failure", async () => {
  const seen: number[] = [];
  await inLanes([1, 2, 3, 4, 5], 2, async (item) => void seen.push(item));
  expect(seen.sort()).toEqual([1, 2, 3, 4, 5]);
  const begun: number[] = [];
  const failing = inLanes([1, 2, 3, 4, 5], 2, async (item) => {
    begun.push(item);
    if (item === 1) throw new Error("the first one fails");
    await setTimeout(1);
  });
  await expect(failing).rejects.toThrow("the first one fails");
  expect(begun).toEqual([1, 2]);
});

test("a temporary folder is removed at the end of its block", () => {
  let path = "";
  {
    using folder = new TemporaryFolder("block");
    path = folder.path;
    expect(existsSync(path)).toBe(true);
  }
  expect(existsSync(path)).toBe(false);
});
