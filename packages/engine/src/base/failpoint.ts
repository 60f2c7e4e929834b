// Where may a test end this process?
//
// Between two steps that a crash could fall between stands a failpoint with a name. It does nothing, unless the environment says
// QUIVER_FAILPOINT=NAME@N: then the N-th passage of that name ends the process with SIGKILL, in whatever thread it is. The
// campaign tests/campaigns/failpoints.ts finds all names in the sources and ends a process at each of them.

const [armed, passage] = (process.env.QUIVER_FAILPOINT ?? "").split("@");
let left = Number(passage ?? 1);

/** Ends the process, where a test has asked for that. @param name `step:moment`, unique in the sources */
export function failpoint(name: string): void {
  if (name !== armed || --left > 0) return;
  process.kill(process.pid, "SIGKILL");
}
