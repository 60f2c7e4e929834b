// What has a search found, and what must a score reach to be among the best?

import { S_FLOOR, S_FOUND, S_FOUND_COUNT, S_HEAP, S_HEAP_COUNT, S_K, S_SCALE, S_SLACK } from "./layout";

/** The floor for sums: scaled as they are, and lower by the error that such a sum can have. */
export function floorOf(scratch: usize): f32 {
  return <f32>(load<f64>(scratch, S_FLOOR) * load<f64>(scratch, S_SCALE) - load<f64>(scratch, S_SLACK));
}

/** Finds a record, where its exact score can be among the best. Returns whether the floor has risen. */
export function take(scratch: usize, record: u32, score: f64): bool {
  if (score < load<f64>(scratch, S_FLOOR)) return false;
  const count = load<u32>(scratch, S_FOUND_COUNT);
  const found = <usize>load<u32>(scratch, S_FOUND) + ((<usize>count) << 4);
  store<f64>(found, score);
  store<u32>(found, record, 8);
  store<u32>(scratch, count + 1, S_FOUND_COUNT);
  return offer(scratch, score);
}

/** Puts a score on the heap of the k best; returns whether the floor has risen. */
function offer(scratch: usize, score: f64): bool {
  const heap = <usize>load<u32>(scratch, S_HEAP);
  const count = load<u32>(scratch, S_HEAP_COUNT);
  const k = load<u32>(scratch, S_K);
  let at: u32;
  if (count < k) {
    store<u32>(scratch, count + 1, S_HEAP_COUNT);
    for (at = count; at > 0; ) {
      const parent = (at - 1) >> 1;
      const above = load<f64>(heap + ((<usize>parent) << 3));
      if (above <= score) break;
      store<f64>(heap + ((<usize>at) << 3), above);
      at = parent;
    }
    store<f64>(heap + ((<usize>at) << 3), score);
    if (count + 1 < k) return false;
  } else {
    if (score <= load<f64>(heap)) return false;
    for (at = 0; ; ) {
      let child: u32 = 2 * at + 1;
      if (child >= k) break;
      if (
        child + 1 < k &&
        load<f64>(heap + ((<usize>child) << 3), 8) < load<f64>(heap + ((<usize>child) << 3))
      )
        child++;
      const below = load<f64>(heap + ((<usize>child) << 3));
      if (below >= score) break;
      store<f64>(heap + ((<usize>at) << 3), below);
      at = child;
    }
    store<f64>(heap + ((<usize>at) << 3), score);
  }
  const least = load<f64>(heap);
  if (least <= load<f64>(scratch, S_FLOOR)) return false;
  store<f64>(scratch, least, S_FLOOR);
  return true;
}
