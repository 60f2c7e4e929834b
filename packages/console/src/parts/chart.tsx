// How does a value change over time?

import { counted } from "@quiverdb/protocol/counted";

export type Series = {
  readonly label: string;
  /** One for each time; undefined where there is none. */
  readonly values: readonly (number | undefined)[];
};

/** Colours of series, of light and dark pages. */
const colors = ["--dense", "--text-leg", "--sparse", "--good", "--bad", "--warn", "--muted"];

const [width, height] = [420, 120];
/** Seconds from which a time is told in minutes. */
const minutesFrom = 120;

/**
 * Lines over the same times, from zero on.
 * @param ages seconds before now, descending
 */
export function Chart({
  title,
  about,
  ages,
  series,
  show,
}: {
  title: string;
  /** What it means. */
  about: string;
  ages: readonly number[];
  series: readonly Series[];
  show: (value: number) => string;
}) {
  const known = series.flatMap(({ values }) => values.filter((value) => value !== undefined));
  const largest = Math.max(...known, 0);
  const top = largest === 0 ? 1 : largest * 1.1;
  const oldest = Math.max(...ages, 1);
  const xOf = (i: number) => width * (1 - ages[i] / oldest);
  const yOf = (value: number) => height - (height * value) / top;
  return (
    <section class="card">
      <h2>{title}</h2>
      <p class="muted small">{about}</p>
      <svg
        class="chart"
        viewBox={`0 -12 ${width} ${height + 14}`}
        preserveAspectRatio="none"
        role="img"
        aria-label={`${title}: ${latestOf(series, show)}`}
      >
        <line class="axis" x1={0} x2={width} y1={height} y2={height} />
        <line class="axis" x1={0} x2={width} y1={yOf(largest)} y2={yOf(largest)} stroke-dasharray="3 4" />
        {series.map(({ label, values }, n) => (
          <path
            key={label}
            class="series"
            style={{ stroke: `var(${colors[n % colors.length]})` }}
            d={lineOf(values, xOf, yOf)}
          />
        ))}
      </svg>
      <p class="muted small number">
        at most {show(largest)}, the last{" "}
        {oldest < minutesFrom
          ? counted(Math.round(oldest), "second")
          : counted(Math.round(oldest / 60), "minute")}
      </p>
      <ul class="legend">
        {series.map(({ label, values }, n) => {
          const last = values.findLast((value) => value !== undefined);
          return (
            <li key={label}>
              <span class="swatch" style={{ background: `var(${colors[n % colors.length]})` }} />
              {label} <b class="number">{last === undefined ? "–" : show(last)}</b>
            </li>
          );
        })}
      </ul>
    </section>
  );
}

function latestOf(series: readonly Series[], show: (value: number) => string): string {
  return series
    .map(({ label, values }) => {
      const last = values.at(-1);
      return `${label} ${last === undefined ? "unknown" : show(last)}`;
    })
    .join(", ");
}

function lineOf(
  values: readonly (number | undefined)[],
  xOf: (i: number) => number,
  yOf: (value: number) => number,
): string {
  let path = "";
  let isDrawing = false;
  values.forEach((value, i) => {
    if (value !== undefined) path += `${isDrawing ? "L" : "M"}${xOf(i).toFixed(1)} ${yOf(value).toFixed(1)}`;
    isDrawing = value !== undefined;
  });
  return path;
}
