// How is an array made that other threads can read?

/** A class of typed arrays, such as `Uint32Array`. */
export interface ArrayClass<T> {
  new (buffer: ArrayBufferLike): T;
  readonly BYTES_PER_ELEMENT: number;
}

/** So many zeros in shared memory. */
export function sharedArray<T>(Values: ArrayClass<T>, length: number): T {
  return new Values(new SharedArrayBuffer(Values.BYTES_PER_ELEMENT * length));
}

/** A longer array that begins with the same values, in shared memory. */
export function grownShared<T extends Uint8Array | Uint16Array | Uint32Array>(
  Values: ArrayClass<T>,
  from: T,
  length: number,
): T {
  const larger = sharedArray(Values, length);
  larger.set(from);
  return larger;
}
