// Where may a test end this process?
//
// Between two steps that a crash could fall between stands a failpoint with a name. It does nothing: what ends the process is not
// in the product, and no variable or option of it brings it in. A campaign loads a module of its own into the server's process
// and its threads (`node --import`, tests/campaigns/crash/arm-failpoint.ts), which arms one of the names. The campaign
// tests/campaigns/failpoints.ts finds all names in the sources and ends a process at each of them.

let onPassage: ((name: string) => void) | undefined;

/** A step of the product begins or ends here. @param name `step:moment`, unique in the sources */
export function failpoint(name: string): void {
  onPassage?.(name);
}

/** Only for tests: has this thread tell every passage. @param tell given the name, before the step goes on */
export function armFailpoints(tell: (name: string) => void): void {
  onPassage = tell;
}
