// What runs in the process of an engine whose sparse or text searches are filtered?

import { serve } from "../shared/worker.ts";
import { engineKinds } from "./inverted.ts";
import { readInverted } from "./inverted-measure.ts";

serve({
  kinds: engineKinds,
  read: (name, rowsMax, directory) => {
    const { set, rows, queries } = readInverted(name, rowsMax);
    return { rows, queries, shape: { set, directory } };
  },
});
