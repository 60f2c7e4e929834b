import { randomNumbers } from "@quiver/kernels/random";
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
    // What is gone gives its numbers back.
    expect(forms.memoryBytes).toBeLessThan(2_000_000);
    forms.close();
    expect(all(forms)).toEqual([]);
  },
);

/** What is read from disk: copies of the state, and of the images. */
function restored(forms: Forms, last: number): Forms {
  forms.rows.freeze(last + 1);
  const { state, images } = forms.save(last + 1);
  const copy = structuredClone(state);
  const read = Forms.imagesFor(copy);
  for (const [i, image] of read.entries()) image.set(images[i]);
  const made = Forms.restored(copy, read);
  made.check();
  return made;
}
