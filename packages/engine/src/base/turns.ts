// Whose turn is it?
//
// Long work goes in slices, and between two of them the event loop reads what has arrived. When many pieces of work are under way, each
// with an immediate of its own, all of their slices would come between two readings, and sixteen searches would hold the loop for
// a third of a second. So they stand in one line: every turn of the event loop has one slice, whoever's it is.
//
// One reading is not enough where many arrive: libuv (1.45 and later) accepts one connection in each turn, so that fifty slices a second
// would mean fifty connections a second, and everybody else waits unseen in the system's queue, where nobody can refuse them. So
// whoever takes connections says that something has `arrived`, and the loop goes round, without a slice, until a round brings nothing
// new; but not for more than `roundsMax`, so that work goes on as well.

const line: (() => void)[] = [];
let isScheduled = false;
let arrivals = 0;
let seen = 0;
let rounds = 0;

/** Rounds of the event loop between two slices at most; one with an arrival takes some 100 microseconds. */
const roundsMax = 256;

/** Something has come from outside that was waiting to be seen. */
export function arrived(): void {
  arrivals++;
}

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
  setImmediate(turn);
}

function turn(): void {
  if (arrivals !== seen && rounds < roundsMax) {
    seen = arrivals;
    rounds++;
    setImmediate(turn);
    return;
  }
  rounds = 0;
  isScheduled = false;
  const first = line.shift();
  if (line.length > 0) schedule();
  first?.();
}
