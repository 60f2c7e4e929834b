// What did a check find and read?

import { limits } from "@quiverdb/protocol/limits";
import type { CheckReport, Finding } from "@quiverdb/protocol/shapes/check";

/** What was checked of a collection. */
export type CheckedCollection = CheckReport["collections"][number];

/** Collects findings, up to a limit. */
export class Report {
  readonly #findings: Finding[] = [];
  readonly #collections: CheckedCollection[] = [];
  readonly #onFinding: (finding: Finding) => void;
  total = 0;
  /** Snapshot files that were read completely. */
  snapshots = 0;

  /** @param onFinding called for each finding, also beyond the limit */
  constructor(onFinding: (finding: Finding) => void = () => {}) {
    this.#onFinding = onFinding;
  }

  add(finding: Finding): void {
    this.total++;
    if (this.#findings.length < limits.findingsMax) this.#findings.push(finding);
    this.#onFinding(finding);
  }

  checked(collection: CheckedCollection): void {
    this.#collections.push(collection);
  }

  toShape(): CheckReport {
    return {
      findings: this.#findings,
      findings_total: this.total,
      collections: this.#collections,
      snapshots: this.snapshots,
    };
  }
}
