// What does a check report?

import { limits } from "@quiver/protocol/limits";
import type { CheckReport, Finding } from "@quiver/protocol/shapes/check";

/** The checked parts of a collection. */
export type CheckedCollection = CheckReport["collections"][number];

/** Collects findings and keeps a limited number of them. */
export class Report {
  readonly #findings: Finding[] = [];
  readonly #collections: CheckedCollection[] = [];
  readonly #onFinding: (finding: Finding) => void;
  total = 0;
  /** Files of snapshots that were read to their end. */
  snapshots = 0;

  /** @param onFinding called for each finding, including those beyond the list's limit */
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
