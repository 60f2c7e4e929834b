// What does the evaluation say where there is no relevance set?

import { spawnSync } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";

test("a folder without a relevance set is refused with the files that are missing, and without a stack trace", () => {
  const folder = mkdtempSync(join(tmpdir(), "quiver-eval-"));
  try {
    for (const dir of [folder, join(folder, "none")]) {
      const { status, stderr } = spawnSync(process.execPath, [join(import.meta.dirname, "eval.ts"), dir], {
        encoding: "utf8",
      });
      expect(status).toBe(2);
      for (const name of ["corpus.jsonl.gz", "queries.jsonl.gz", "qrels.tsv"]) expect(stderr).toContain(name);
      expect(stderr).not.toMatch(/^ {4}at /m);
    }
  } finally {
    rmSync(folder, { recursive: true });
  }
});
