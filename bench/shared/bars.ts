// How are the costs of engines drawn as a bar chart?
//
// Horizontal bars from the least to the greatest cost, each with its name and its number. They begin at zero, so that a bar twice as long
// is a cost twice as high; a bar longer than `longest` times the shortest is truncated.

import { escaped } from "./chart.ts";

export type Bar = { readonly title: string; readonly value: number; readonly isOurs?: boolean };

const width = 880;
const left = 270;
const right = 90;
const top = 62;
const rowHeight = 30;
const barHeight = 18;
/** Bars are cut off at this multiple of the lowest cost, because longer bars would hide the differences between the short ones. */
const longest = 25;

export function bars(title: string, unit: string, all: readonly Bar[]): string {
  const sorted = all.toSorted((a, b) => a.value - b.value);
  const end = Math.min(sorted[sorted.length - 1].value, longest * sorted[0].value);
  const height = top + rowHeight * sorted.length + 14;
  const rows = sorted.map(({ title: name, value, isOurs }, i) => {
    const y = top + rowHeight * i;
    const length = (Math.min(value, end) / end) * (width - left - right);
    const weight = isOurs ? ' font-weight="bold"' : "";
    const broken =
      value > end
        ? `<line x1="${left + length - 18}" y1="${y + barHeight}" x2="${left + length - 10}" y2="${y}" stroke="#ffffff" stroke-width="4"/>`
        : "";
    return `<text x="${left - 10}" y="${y + 14}" text-anchor="end"${weight}>${escaped(name)}</text>
<rect x="${left}" y="${y}" width="${length.toFixed(1)}" height="${barHeight}" fill="${isOurs ? "#0072b2" : "#b0b0b0"}"/>${broken}
<text x="${(left + length + 8).toFixed(1)}" y="${y + 14}"${weight}>${value.toFixed(3)}</text>`;
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" font-family="system-ui, sans-serif" font-size="12" fill="#222">
<rect width="${width}" height="${height}" fill="#ffffff"/>
<text x="20" y="24" font-size="15" font-weight="bold">${escaped(title)}</text>
<text x="20" y="44">${escaped(unit)}; less is better</text>
${rows.join("\n")}
</svg>
`;
}
