import { expect, test } from "vitest";
import { shared } from "./metrics.ts";

test("[O10] [H21] many who ask for one page share it, and none gets one that was begun before it asked", async () => {
  let made = 0;
  const pending: PromiseWithResolvers<number>[] = [];
  const page = shared(() => {
    made++;
    const each = Promise.withResolvers<number>();
    pending.push(each);
    return each.promise;
  });
  const first = [page(), page()];
  await expect.poll(() => made).toBe(1);
  const second = [page(), page(), page()];
  pending[0].resolve(1);
  expect(await Promise.all(first)).toEqual([1, 1]);
  await expect.poll(() => made).toBe(2);
  const third = page();
  pending[1].reject(new Error("no page"));
  for (const each of second) await expect(each).rejects.toThrow("no page");
  await expect.poll(() => made).toBe(3);
  pending[2].resolve(3);
  expect(await third).toBe(3);
});
