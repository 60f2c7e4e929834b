// How is the beginning of a stream looked at, and still read?

/** What was read already, then the rest. Whoever stops reading closes the rest, also when it stops at the beginning. */
export async function* prepended<T>(first: T, rest: AsyncGenerator<T>): AsyncGenerator<T> {
  try {
    yield first;
    yield* rest;
  } finally {
    await rest.return(undefined);
  }
}
