// What runs in the process of a sparse engine?

import { serve } from "../shared/worker.ts";
import { readSet, setNamed, shapeOf } from "./data.ts";
import { engineKinds } from "./engines.ts";

serve({
  kinds: engineKinds,
  read(name, rowsMax, directory) {
    const set = readSet(setNamed(name), rowsMax);
    return { rows: set.rows, queries: set.queries, shape: shapeOf(set, directory) };
  },
});
