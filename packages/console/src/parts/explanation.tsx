// Why does a result have its score, and how did the fusion make the order?

import type { Explanation, FilterExplanation, SearchResult } from "@quiverdb/protocol/shapes/search";
import type { Warning } from "@quiverdb/protocol/shapes/warning";
import { clipped, count, countOf, decimal } from "./format.ts";

/** The legs in the order of an explanation, with the name of their colour. */
export const legs = [
  { key: "dense", label: "dense", color: "dense" },
  { key: "sparse", label: "sparse", color: "sparse" },
  { key: "tf-idf", label: "text", color: "text" },
] as const;

type Leg = (typeof legs)[number];

export const legsOf = (results: readonly SearchResult[]): readonly Leg[] =>
  legs.filter(({ key }) => results.some(({ explanation }) => explanation?.[key] !== undefined));

type Bar = { readonly label: string; readonly title: string; readonly value: number };

/** Labelled bars; their longest has the whole width. A negative value is pale. */
function Bars({ bars, color }: { bars: readonly Bar[]; color: string }) {
  const largest = Math.max(...bars.map(({ value }) => Math.abs(value)), Number.MIN_VALUE);
  return (
    <div class="bars">
      {bars.map(({ label, title, value }, i) => (
        <>
          <span key={`label ${i}`} class="mono" title={title}>
            {label}
          </span>
          <span
            key={`bar ${i}`}
            class={`bar ${color} ${value < 0 ? "negative" : ""}`}
            style={{ width: `${(100 * Math.abs(value)) / largest}%` }}
          />
          <span key={`value ${i}`} class="number">
            {decimal(value)}
          </span>
        </>
      ))}
    </div>
  );
}

/** The share of each leg in the score of a result, as one bar. */
export function Shares({ explanation, largest }: { explanation: Explanation; largest: number }) {
  const parts = legs.flatMap(({ key, label, color }) => {
    const leg = explanation[key];
    return leg ? [{ label, color, value: leg.contribution }] : [];
  });
  const title = parts.map(({ label, value }) => `${label} ${decimal(value)}`).join(", ");
  return (
    <span class="stacked" role="img" aria-label={`Contributions: ${title}`} title={title}>
      {parts.map(({ label, color, value }) => (
        <span
          key={label}
          class={`bar ${color}`}
          style={{ width: `${Math.max(0, (100 * value) / largest)}%`, borderRadius: 0 }}
        />
      ))}
    </span>
  );
}

export function ResultExplanation({ explanation }: { explanation: Explanation }) {
  return (
    <div class="stack">
      {legs.map(({ key, label, color }) => {
        const leg = explanation[key];
        if (leg === undefined) return null;
        if (leg === null)
          return (
            <p key={key} class="muted small">
              <span class={`badge ${color}`}>{label}</span> did not find this record.
            </p>
          );
        return (
          <div key={key}>
            <p class="small">
              <span class={`badge ${color}`}>{label}</span> rank <b>{leg.rank}</b>, score {decimal(leg.score)}
              , contributes <b>{decimal(leg.contribution)}</b>
              {leg.weight !== 1 && ` with weight ${decimal(leg.weight)}`}
            </p>
            {key === "sparse" && explanation.sparse && (
              <Bars
                color={color}
                bars={explanation.sparse.matches.map(({ index, query_value, stored_value, product }) => ({
                  label: String(index),
                  title: `query ${decimal(query_value)} × record ${decimal(stored_value)}`,
                  value: product,
                }))}
              />
            )}
            {key === "tf-idf" && explanation["tf-idf"] && (
              <>
                <Bars
                  color={color}
                  bars={explanation["tf-idf"].matches.map((match) => ({
                    label: match.term,
                    title: `${match.tf} in the record, in ${countOf(match.df, "record")}, idf ${decimal(match.idf)}`,
                    value: match.contribution,
                  }))}
                />
                <p class="muted small">
                  {countOf(explanation["tf-idf"].document_length, "term")} in the record,{" "}
                  {decimal(explanation["tf-idf"].average_length)} on average,{" "}
                  {countOf(explanation["tf-idf"].documents, "record")} with a text.
                </p>
              </>
            )}
          </div>
        );
      })}
    </div>
  );
}

const rowHeight = 24;
const drawnMax = 20;

/** From the ranks in each leg to the order of the results: a column of ranks for each leg, and lines to the order on the right. */
export function FusionDrawing({ results }: { results: readonly SearchResult[] }) {
  const drawn = results.slice(0, drawnMax);
  const shown = legsOf(drawn);
  const width = 640;
  const xOf = (column: number) => 26 + column * ((width - 250) / shown.length);
  const xOrder = width - 215;
  const yOf = (row: number) => 34 + row * rowHeight;
  const height = yOf(drawn.length - 1) + 18;
  const columns = shown.map((leg) => ({
    leg,
    // Only the order within the results is drawn, and the rank is written beside it.
    members: drawn
      .map((result, order) => ({ order, rank: result.explanation?.[leg.key]?.rank }))
      .filter((each): each is { order: number; rank: number } => each.rank !== undefined)
      .sort((a, b) => a.rank - b.rank),
  }));
  return (
    <svg
      class="ranks"
      viewBox={`0 0 ${width} ${height}`}
      role="img"
      aria-label="Ranks of each leg, and the order that the fusion makes of them"
    >
      {columns.map(({ leg, members }, column) =>
        members.map(({ order }, row) => {
          const [x, y] = [xOf(column) + 5, yOf(row)];
          const [toX, toY] = [xOrder - 10, yOf(order)];
          const middle = (x + toX) / 2;
          const path = `M${x} ${y}C${middle} ${y} ${middle} ${toY} ${toX} ${toY}`;
          return <path key={`${leg.key} ${order}`} class={`link ${leg.color}`} d={path} />;
        }),
      )}
      {columns.map(({ leg, members }, column) => (
        <g key={leg.key}>
          <text class="title" x={xOf(column) - 10} y={14}>
            {leg.label}
          </text>
          {members.map(({ order, rank }, row) => (
            <g key={order}>
              <circle class={`dot ${leg.color}`} cx={xOf(column)} cy={yOf(row)} r={4.5} />
              <text x={xOf(column) - 9} y={yOf(row) + 4} text-anchor="end">
                {rank}
              </text>
            </g>
          ))}
        </g>
      ))}
      <text class="title" x={xOrder} y={14}>
        order
      </text>
      {drawn.map(({ id, score }, order) => (
        <text key={id} x={xOrder} y={yOf(order) + 4}>
          {order + 1}. {clipped(id, 16)} · {decimal(score)}
        </text>
      ))}
    </svg>
  );
}

/** What is probably wrong with a filter that no record matches. */
export function Warnings({ of: warnings = [] }: { of: readonly Warning[] | undefined }) {
  return warnings.map(({ path, message }) => <p key={path}>{message}</p>);
}

/** How a filter was used. */
export function FilterPlan({ filter }: { filter: FilterExplanation }) {
  const read = filter.is_known
    ? "The set was known from an earlier request."
    : filter.records_read === 0
      ? "The set was made of metadata indexes alone."
      : filter.records_read === undefined
        ? ""
        : `${countOf(filter.records_read, "record")} ${filter.records_read === 1 ? "was" : "were"} read to find the set.`;
  return (
    <div>
      <p>
        The filter matches <b>{count(filter.matching)}</b> of {countOf(filter.records, "record")}. {read}
      </p>
      {Object.entries(filter.legs).map(([kind, { way, estimated_us }]) => (
        <div key={kind}>
          <p class="small">
            {kind}: <b>{way}</b>. Expected microseconds of each way:
          </p>
          <Bars
            color={legs.find(({ key }) => key === kind)?.color ?? "dense"}
            bars={Object.entries(estimated_us).map(([name, value]) => ({
              label: name,
              title: name === way ? "chosen" : "not chosen",
              value,
            }))}
          />
        </div>
      ))}
    </div>
  );
}
