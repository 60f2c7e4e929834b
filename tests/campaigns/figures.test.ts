import { expect, test } from "vitest";
import { withFigures } from "./figures.ts";

const page =
  "# A\n\n<!-- figures: one -->\nold\n<!-- end -->\n\nwords\n\n<!-- figures: two -->\n<!-- end -->\n";

test("new figures of a campaign replace only its old ones", () => {
  const once = withFigures(page, "two", "Seen.", { kills: 1_000, "lost writes": "none" });
  expect(once).toBe(
    page.replace(
      "two -->\n",
      "two -->\nSeen.\n\n| seen | |\n|---|---:|\n| kills | 1,000 |\n| lost writes | none |\n",
    ),
  );
  expect(withFigures(once, "two", "Seen.", { kills: 1_000, "lost writes": "none" })).toBe(once);
  expect(withFigures(once, "one", "Seen.", {})).not.toContain("old");
});

test("figures without a place in the page are rejected", () => {
  expect(() => withFigures(page, "three", "Seen.", {})).toThrow("three");
});
