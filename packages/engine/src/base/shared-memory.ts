// How is an array made that other threads can read?

/** A class of typed arrays, such as `Uint32Array`. */
export interface ArrayClass<T> {
  new (buffer: ArrayBufferLike): T;
  readonly BYTES_PER_ELEMENT: number;
}

/** A shared array of that many zeros. */
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

// ---- Does this thread know a shared memory already?
//
// A memory that is posted arrives as a new object each time. Whoever makes one that is posted gives it a number. A thread keeps what it
// has made of a memory (views, instances of kernels, scratch memory in a slot) under that number, for as long as a reader of it is in use.

const attached = new Map<string, WeakRef<object>>();
const collected = new FinalizationRegistry<string>((key) => {
  if (attached.get(key)?.deref() === undefined) attached.delete(key);
});

/** What this thread has made of the memory of a number, for searches in a slot; made now, where it has nothing. */
export function attachOnce<T extends object>(id: number, slot: number, make: () => T): T {
  const key = `${id}/${slot}`;
  const known = attached.get(key)?.deref() as T | undefined;
  if (known !== undefined) return known;
  const made = make();
  attached.set(key, new WeakRef(made));
  collected.register(made, key);
  return made;
}

/** Numbers of this thread begin at a random place, for the memories of several threads meet in one. */
let last = crypto.getRandomValues(new Uint32Array(1))[0] * 2 ** 20;

/** A number for a memory that no other has in this process. */
export const nextMemoryId = (): number => ++last;
