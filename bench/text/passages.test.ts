import { expect, test } from "vitest";
import { missingPassages, resampled } from "./passages.ts";

const real = [
  "A river: water that flows; it ends in the sea.",
  "Glacier: ice that moves slowly.",
  "To walk; to go on foot: not to run.",
];
const sentences = new Set(real.flatMap((passage) => passage.split(/(?<=[.;:]) /)));

test("passages beyond the real ones are composed of their sentences, the same each time", () => {
  const twenty = resampled(real, 20);
  expect(twenty).toHaveLength(20);
  expect(twenty.slice(0, 3)).toEqual(real);
  for (const passage of twenty)
    for (const sentence of passage.split(/(?<=[.;:]) /)) expect(sentences).toContain(sentence);
  expect(new Set(twenty.slice(3)).size).toBeGreaterThan(10);
  expect(resampled(real, 20)).toEqual(twenty);
});

test("fewer passages are the first of more", () => {
  expect(resampled(real, 2)).toEqual(real.slice(0, 2));
  expect(resampled(real, 8)).toEqual(resampled(real, 20).slice(0, 8));
});

test("missing files are named, with the packages that contain them", () => {
  expect(missingPassages([import.meta.filename])).toBeUndefined();
  const reason = missingPassages([import.meta.filename, "absent.dict.dz"]);
  expect(reason).toContain("absent.dict.dz");
  expect(reason).not.toContain(import.meta.filename);
  expect(reason).toContain("dict-gcide");
});
