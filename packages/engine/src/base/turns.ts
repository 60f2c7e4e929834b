// Whose turn is it?
//
// Long work goes in slices, and between two of them the event loop reads what has arrived. When many pieces of work are under way, each
// with an immediate of its own, all of their slices would come between two readings, and sixteen searches would hold the loop for
// a third of a second. So they stand in one line: every turn of the event loop has one slice, whoever's it is.

const line: (() => void)[] = [];
let isScheduled = false;

/** Resolves in a later turn of the event loop, in which nobody else of this line goes on. First come, first served. */
export function nextTurn(): Promise<void> {
  return new Promise((resolve) => {
    line.push(resolve);
    schedule();
  });
}

function schedule(): void {
  if (isScheduled) return;
  isScheduled = true;
  setImmediate(() => {
    isScheduled = false;
    const first = line.shift();
    if (line.length > 0) schedule();
    first?.();
  });
}
