// What has a search found, and what must a score reach to be among the best?

import { A_FLOOR, A_FOUND, A_FOUND_COUNT, A_HEAP, A_HEAP_COUNT, A_K, A_SCALE, A_SLACK } from "./layout";

/** The floor for sums: scaled as they are, and lower by the error that such a sum can have. */
export function floorOf(area: usize): f32 {
  return <f32>(load<f64>(area, A_FLOOR) * load<f64>(area, A_SCALE) - load<f64>(area, A_SLACK));
}

/** Finds a record, where its exact score can be among the best. Returns whether the floor has risen. */
export function take(area: usize, record: u32, score: f64): bool {
  if (score < load<f64>(area, A_FLOOR)) return false;
  const count = load<u32>(area, A_FOUND_COUNT);
  const found = <usize>load<u32>(area, A_FOUND) + ((<usize>count) << 4);
  store<f64>(found, score);
  store<u32>(found, record, 8);
  store<u32>(area, count + 1, A_FOUND_COUNT);
  return offer(area, score);
}

/** Puts a score on the heap of the k best; returns whether the floor has risen. */
function offer(area: usize, score: f64): bool {
  const heap = <usize>load<u32>(area, A_HEAP);
  const count = load<u32>(area, A_HEAP_COUNT);
  const k = load<u32>(area, A_K);
  let at: u32;
  if (count < k) {
    store<u32>(area, count + 1, A_HEAP_COUNT);
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
  if (least <= load<f64>(area, A_FLOOR)) return false;
  store<f64>(area, least, A_FLOOR);
  return true;
}
