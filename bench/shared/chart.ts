// How are curves drawn as a chart?
//
// A small SVG with labelled axes and one labelled line per series. It has its own background, so that it is readable on dark pages, too.

export type Axis = {
  readonly title: string;
  /** The ends; values outside are not drawn. */
  readonly from: number;
  readonly to: number;
  readonly ticks: readonly { readonly value: number; readonly label: string }[];
  readonly isLogarithmic?: boolean;
};

export type Series = {
  readonly title: string;
  /** Drawn thicker. */
  readonly isOurs?: boolean;
  readonly points: readonly (readonly [x: number, y: number])[];
};

const width = 880;
const height = 460;
const left = 70;
const top = 44;
const right = 270;
const bottom = 56;

/** Distinguishable with colour blindness (Okabe and Ito, plus three more). */
const colours = [
  "#0072b2",
  "#56b4e9",
  "#d55e00",
  "#009e73",
  "#7fc8a9",
  "#cc79a7",
  "#b8860b",
  "#e6a700",
  "#555555",
  "#999999",
];

const escaped = (text: string): string =>
  text.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");

/** Position of a value on its axis, 0 to 1. */
function share({ from, to, isLogarithmic }: Axis, value: number): number {
  const measure = isLogarithmic ? Math.log : (number: number) => number;
  return (measure(value) - measure(from)) / (measure(to) - measure(from));
}

export function chart(title: string, x: Axis, y: Axis, series: readonly Series[]): string {
  const toX = (value: number) => left + share(x, value) * (width - left - right);
  const toY = (value: number) => height - bottom - share(y, value) * (height - top - bottom);
  const isInside = ([px, py]: readonly [number, number]) =>
    share(x, px) >= 0 && share(x, px) <= 1 && share(y, py) >= 0 && share(y, py) <= 1;
  const text = (tx: number, ty: number, words: string, more = "") =>
    `<text x="${tx.toFixed(1)}" y="${ty.toFixed(1)}" ${more}>${escaped(words)}</text>`;
  const line = (x1: number, y1: number, x2: number, y2: number, more: string) =>
    `<line x1="${x1.toFixed(1)}" y1="${y1.toFixed(1)}" x2="${x2.toFixed(1)}" y2="${y2.toFixed(1)}" ${more}/>`;

  const grid = [
    ...x.ticks.flatMap(({ value, label }) => [
      line(toX(value), top, toX(value), height - bottom, 'stroke="#e4e4e4"'),
      text(toX(value), height - bottom + 18, label, 'text-anchor="middle"'),
    ]),
    ...y.ticks.flatMap(({ value, label }) => [
      line(left, toY(value), width - right, toY(value), 'stroke="#e4e4e4"'),
      text(left - 8, toY(value) + 4, label, 'text-anchor="end"'),
    ]),
  ];
  const curves = series.flatMap(({ title: name, isOurs, points }, i) => {
    const colour = colours[i % colours.length];
    const inside = points.filter(isInside);
    const path = inside.map(([px, py]) => `${toX(px).toFixed(1)},${toY(py).toFixed(1)}`).join(" ");
    const stroke = `stroke="${colour}" stroke-width="${isOurs ? 3 : 1.6}"`;
    const dots = inside.map(
      ([px, py]) =>
        `<circle cx="${toX(px).toFixed(1)}" cy="${toY(py).toFixed(1)}" r="${isOurs ? 3.5 : 2.5}" fill="${colour}"/>`,
    );
    const rowY = top + 8 + 20 * i;
    const legend = [
      line(width - right + 16, rowY, width - right + 42, rowY, stroke),
      text(width - right + 50, rowY + 4, name, isOurs ? 'font-weight="bold"' : ""),
    ];
    return [`<polyline points="${path}" fill="none" ${stroke}/>`, ...dots, ...legend];
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="system-ui, sans-serif" font-size="12" fill="#222">
<rect width="${width}" height="${height}" fill="#ffffff"/>
${text(left, 24, title, 'font-size="15" font-weight="bold"')}
${grid.join("\n")}
${line(left, height - bottom, width - right, height - bottom, 'stroke="#222"')}
${line(left, top, left, height - bottom, 'stroke="#222"')}
${text((left + width - right) / 2, height - 14, x.title, 'text-anchor="middle"')}
<text transform="translate(18 ${(top + height - bottom) / 2}) rotate(-90)" text-anchor="middle">${escaped(y.title)}</text>
${curves.join("\n")}
</svg>
`;
}

/** 1, 2 and 5 times powers of ten, from at most `least` to at least `greatest`: ticks of a logarithmic axis. */
export function logarithmicTicks(least: number, greatest: number): { value: number; label: string }[] {
  const all: { value: number; label: string }[] = [];
  for (let power = Math.floor(Math.log10(least)); power <= Math.ceil(Math.log10(greatest)); power++) {
    for (const digit of [1, 2, 5]) {
      const value = Number(`${digit}e${power}`);
      all.push({ value, label: value.toLocaleString("en", { maximumSignificantDigits: 2 }) });
    }
  }
  const first = all.findLastIndex(({ value }) => value <= least);
  const last = all.findIndex(({ value }) => value >= greatest);
  return all.slice(first, last + 1);
}
