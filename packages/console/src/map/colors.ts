// Which colour does each point have?

import type { FieldValue } from "./messages.ts";

type Color = readonly [red: number, green: number, blue: number];

/** Of about the same lightness, so that they are seen on light and on dark ground. */
const distinct: readonly Color[] = [
  [109, 93, 245],
  [230, 110, 40],
  [15, 155, 142],
  [221, 70, 130],
  [120, 155, 30],
  [50, 140, 225],
  [190, 140, 20],
  [160, 85, 200],
  [95, 125, 140],
  [200, 75, 70],
];
const other: Color = [140, 140, 150];
/** From small to large numbers. */
const scale: readonly Color[] = [
  [70, 70, 200],
  [20, 150, 160],
  [110, 175, 50],
  [235, 150, 30],
  [215, 55, 70],
];

export type LegendEntry = { readonly label: string; readonly color: string; readonly count?: number };
export type Coloring = { readonly colors: Uint8Array; readonly legend: readonly LegendEntry[] };

const css = ([red, green, blue]: Color) => `rgb(${red} ${green} ${blue})`;

/**
 * Three bytes for each point: by its value if they are numbers of many values, else one colour for each of the most frequent values.
 * @param values of the field; absent: all points have one colour
 */
export function colorsOf(count: number, values: readonly FieldValue[] | undefined): Coloring {
  if (values === undefined) return paint(count, () => distinct[0], []);
  const frequencies = new Map<FieldValue, number>();
  for (let i = 0; i < count; i++) frequencies.set(values[i], (frequencies.get(values[i]) ?? 0) + 1);
  const numbers = [...frequencies.keys()].filter((value) => typeof value === "number");
  const known = frequencies.size - Number(frequencies.has(undefined));
  if (numbers.length === known && known > distinct.length) return byNumber(count, values, numbers);
  const frequent = [...frequencies]
    .filter(([value]) => value !== undefined)
    .sort((a, b) => b[1] - a[1])
    .slice(0, distinct.length);
  const colors = new Map(frequent.map(([value], i) => [value, distinct[i]]));
  const rest = count - frequent.reduce((sum, [, frequency]) => sum + frequency, 0);
  const legend = frequent.map(([value, frequency], i) => ({
    label: String(value),
    color: css(distinct[i]),
    count: frequency,
  }));
  if (rest > 0) legend.push({ label: "others, or none", color: css(other), count: rest });
  return paint(count, (i) => colors.get(values[i]) ?? other, legend);
}

/** The colours with all points grey but some. @param points the bright ones */
export function lit(colors: Uint8Array, points: ReadonlySet<number>): Uint8Array {
  return colors.map((part, at) => (points.has(Math.floor(at / 3)) ? part : other[at % 3]));
}

function byNumber(count: number, values: readonly FieldValue[], numbers: readonly number[]): Coloring {
  const least = numbers.reduce((a, b) => Math.min(a, b));
  const most = numbers.reduce((a, b) => Math.max(a, b));
  const colorAt = (share: number): Color => {
    const at = share * (scale.length - 1);
    const below = Math.min(scale.length - 2, Math.floor(at));
    const part = at - below;
    const mixed = scale[below].map((value, i) => Math.round(value + part * (scale[below + 1][i] - value)));
    return mixed as unknown as Color;
  };
  const legend = scale.map((_, i) => {
    const share = i / (scale.length - 1);
    return {
      label: String(Number((least + share * (most - least)).toPrecision(4))),
      color: css(colorAt(share)),
    };
  });
  return paint(
    count,
    (i) => {
      const value = values[i];
      return typeof value === "number" ? colorAt((value - least) / (most - least)) : other;
    },
    legend,
  );
}

function paint(count: number, colorOf: (i: number) => Color, legend: readonly LegendEntry[]): Coloring {
  const colors = new Uint8Array(3 * count);
  for (let i = 0; i < count; i++) colors.set(colorOf(i), 3 * i);
  return { colors, legend };
}
