import { expect, it } from "vitest";
import { alignedTable } from "./output.ts";

const columns = [{ title: "N", right: true }, { title: "NAME" }];

it("a table has its columns side by side and no line wider than the terminal", () => {
  const cells = [
    ["1", "short"],
    ["10", "a long name that does not fit"],
  ];
  expect(alignedTable(columns, cells, 80).split("\n")).toEqual([
    " N  NAME",
    " 1  short",
    "10  a long name that does not fit",
  ]);
  const narrow = alignedTable(columns, cells, 12).split("\n");
  expect(narrow[2]).toBe("10  a long …");
  for (const line of narrow) expect(line.length).toBeLessThanOrEqual(12);
});
