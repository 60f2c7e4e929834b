import { randomNumbers } from "@quiverdb/kernels/random";
import { expect, test } from "vitest";
import { finishAtOnce } from "../../base/steps.ts";
import { Forms } from "./forms.ts";

const all = (forms: Forms, hidden: Iterable<number> = []) =>
  finishAtOnce(
    forms.formsThat(
      () => true,
      () => hidden,
    ),
  ).sort();

test.each([1, 2, 3])(
  "forms are those of the records that are held and not hidden, through all changes: seed %i",
  (seed) => {
    const random = randomNumbers(seed);
    let forms = new Forms();
    const records = new Map<number, string[]>();
    const expected = (hidden: ReadonlySet<number>) =>
      [...new Set([...records].flatMap(([ordinal, list]) => (hidden.has(ordinal) ? [] : list)))].sort();
    for (let ordinal = 0; ordinal < 6_000; ordinal++) {
      const list = Array.from({ length: Math.floor(random() * 6) }, () =>
        random() < 0.3 ? `only ${ordinal} ${random()}` : `form ${Math.floor(random() ** 2 * 500)}`,
      );
      forms.add(
        ordinal,
        list.map((form) => forms.numberOf(form)),
      );
      records.set(ordinal, list);
      if (random() < 0.9) {
        const gone = Math.floor(random() * ordinal);
        forms.remove(gone);
        records.delete(gone);
      }
      if (ordinal % 700 === 0) forms.rows.freeze(ordinal - 50);
      if (ordinal % 2_000 === 1_999) {
        const hidden = new Set([...records.keys()].filter(() => random() < 0.2));
        expect(all(forms, hidden)).toEqual(expected(hidden));
        forms.check();
        forms = restored(forms, ordinal);
        expect(all(forms)).toEqual(expected(new Set()));
      }
    }
    // Removed forms release their numbers.
    expect(forms.memoryBytes).toBeLessThan(2_000_000);
    forms.close();
    expect(all(forms)).toEqual([]);
  },
);

test.each(["only added", "added and removed"])(
  "[Q20] a scan of the forms in steps equals one at once, whatever records are %s meanwhile",
  (changes) => {
    const forms = new Forms();
    const add = (ordinal: number, list: readonly string[]) =>
      forms.add(
        ordinal,
        list.map((form) => forms.numberOf(form)),
      );
    const recordCount = 4_000;
    const listOf = (ordinal: number) =>
      Array.from({ length: 30 }, (_, i) => `form ${(7 * ordinal + i) % 20_000}`);
    for (let ordinal = 0; ordinal < recordCount; ordinal++) add(ordinal, listOf(ordinal));
    const isHidden = (ordinal: number) => ordinal % 4 !== 0;
    const seen = new Set<string>();
    for (let ordinal = 0; ordinal < recordCount; ordinal += 4)
      for (const form of listOf(ordinal)) seen.add(form);
    const held = new Set(Array.from({ length: recordCount }, (_, ordinal) => ordinal));
    const steps = forms.formsThat(
      () => true,
      () => [...held].filter(isHidden),
    );
    let step = steps.next();
    let count = 0;
    for (; !step.done; step = steps.next(), count++) {
      // Added records are not visible, and removed ones were not.
      for (let i = 0; i < 5; i++) {
        const ordinal = recordCount + 4 * (5 * count + i) + 1;
        add(ordinal, [`form ${count}`, `new ${ordinal}`]);
        held.add(ordinal);
        const gone = 4 * (5 * count + i) + 1;
        if (changes === "only added" || gone >= recordCount) continue;
        forms.remove(gone);
        held.delete(gone);
      }
    }
    expect(count).toBeGreaterThan(2);
    expect(step.value.sort()).toEqual([...seen].sort());
    forms.check();
  },
);

/** Data as read from disk: copies of the state and of the images. */
function restored(forms: Forms, last: number): Forms {
  forms.rows.freeze(last + 1);
  const { state, images, done } = forms.save(last + 1);
  const copy = structuredClone(state);
  const read = Forms.imagesFor(copy);
  for (const [i, image] of read.entries()) image.set(images[i]);
  done();
  const made = finishAtOnce(Forms.restored(copy, read));
  made.check();
  return made;
}
