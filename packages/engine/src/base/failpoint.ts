// Where can a test crash this process?
//
// A named failpoint marks each place between two steps where a crash could matter. By itself it does nothing: the code that ends the
// process is not in the product, and no variable or option of the product loads it. A campaign loads its own module into the
// server's process and threads (`node --import`, tests/campaigns/crash/arm-failpoint.ts), which arms one of the names. The campaign
// tests/campaigns/failpoints.ts finds all names in the sources and ends a process at each of them.

let onPassage: ((name: string) => void) | undefined;

/** Marks the beginning or end of a step. @param name `step:moment`, unique in the sources */
export function failpoint(name: string): void {
  onPassage?.(name);
}

/** For tests only: reports every failpoint that this thread reaches. @param report gets the name, before the step continues */
export function armFailpoints(report: (name: string) => void): void {
  onPassage = report;
}
