// How does a benchmark hand over what it has measured?

import { writePage } from "../page.ts";
import { keep, type Measured, runOf } from "./results.ts";
import { shown } from "./table.ts";

/** Prints a run. If it is kept, stores it in bench/results and writes docs/benchmarks.md. */
export function publish(benchmark: string, measured: Measured, isKept: boolean): void {
  console.log(`${shown(measured)}\n`);
  if (!isKept) return;
  keep(benchmark, runOf(measured));
  writePage();
}
