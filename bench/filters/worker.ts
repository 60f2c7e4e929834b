// What runs in the process of an engine whose filters are measured?

import { serve } from "../shared/worker.ts";
import { readSet } from "./data.ts";
import { engineKinds } from "./engines.ts";
import { queriesMax, rowsDefault } from "./measure.ts";

serve({
  kinds: engineKinds,
  read(_set, rowsMax, directory) {
    const count = rowsMax ?? rowsDefault;
    return { ...readSet(count, queriesMax), shape: { count, directory } };
  },
});
