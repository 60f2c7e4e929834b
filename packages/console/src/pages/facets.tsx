// Which values do the declared fields have, among the records that match?

import { isQuiverError } from "@quiverdb/protocol/errors";
import { limits } from "@quiverdb/protocol/limits";
import type { FilterValue } from "@quiverdb/protocol/shapes/filter";
import type { TabProps } from "../facts.ts";
import { clipped, count } from "../parts/format.ts";
import { Show, useLoaded } from "../parts/loading.tsx";
import { hrefOf } from "../route.ts";
import { useClient } from "../session.ts";
import { parseFilter } from "../written.ts";

/** Values of a field that are shown: the most frequent ones. */
const valuesMax = 8;

/** @param filter as it is written. @param choose narrows it to the records with a value */
export function Facets({
  name,
  facts,
  filter,
  round,
  choose,
}: Pick<TabProps, "name" | "facts"> & {
  filter: string;
  round: number;
  choose: (field: string, value: FilterValue) => void;
}) {
  const collection = useClient().collection(name);
  const fields = facts.fields.slice(0, limits.facetFieldsMax).map(({ field }) => field);
  const facets = useLoaded(
    async (signal) =>
      fields.length === 0
        ? {}
        : await collection.facet({ fields, limit: valuesMax, filter: parseFilter(filter) }, { signal }),
    [name, filter, round, fields.join("\n")],
  );
  if (!facts.areIndexesKnown) return null;
  return (
    <section class="card stack" aria-labelledby="values-of-fields">
      <h2 id="values-of-fields">Values of fields</h2>
      {fields.length === 0 && (
        <p class="muted small">
          Fields that are declared show their values here.{" "}
          <a href={hrefOf(["collections", name, "overview"])}>Declare a field</a>
        </p>
      )}
      {/* What is wrong with the filter is said beside the table. */}
      <Show of={isQuiverError(facets.error, "invalid_filter") ? { ...facets, error: undefined } : facets}>
        {(found) =>
          fields.map((field) => (
            <div key={field}>
              <h3>{field}</h3>
              <ul class="facets">
                {(found[field] ?? []).map(({ value, count: frequency }) => (
                  <li key={`${typeof value} ${value}`}>
                    <button
                      type="button"
                      class="plain"
                      aria-label={`Only ${field} ${value}`}
                      onClick={() => choose(field, value)}
                    >
                      {clipped(String(value), 40)}
                    </button>
                    <span class="muted number">{count(frequency)}</span>
                  </li>
                ))}
              </ul>
            </div>
          ))
        }
      </Show>
    </section>
  );
}
