// How are numbers, sizes and durations parsed on a command line and formatted for people?
//
// Every parser returns the value of a text or throws an Error that says what was expected. The caller adds the source of the text.

const sizeUnits: Readonly<Record<string, number>> = {
  "": 1,
  b: 1,
  k: 1024,
  kb: 1000,
  kib: 1024,
  m: 1024 ** 2,
  mb: 1000 ** 2,
  mib: 1024 ** 2,
  g: 1024 ** 3,
  gb: 1000 ** 3,
  gib: 1024 ** 3,
  t: 1024 ** 4,
  tb: 1000 ** 4,
  tib: 1024 ** 4,
};

const durationUnits: Readonly<Record<string, number>> = {
  ms: 1,
  "": 1000,
  s: 1000,
  m: 60_000,
  min: 60_000,
  h: 3_600_000,
  d: 86_400_000,
};

/** A whole number from `least` to `most`. */
export function readInteger(text: string, least = 0, most = Number.MAX_SAFE_INTEGER): number {
  const value = /^\s*\d[\d_]*\s*$/.test(text) ? Number(text.replaceAll("_", "")) : Number.NaN;
  if (Number.isSafeInteger(value) && value >= least && value <= most) return value;
  const upTo = most === Number.MAX_SAFE_INTEGER ? "" : ` and at most ${most}`;
  throw new Error(`expected a whole number of at least ${least}${upTo}`);
}

/** A finite number. */
export function readNumber(text: string): number {
  const value = text.trim() === "" ? Number.NaN : Number(text);
  if (Number.isFinite(value)) return value;
  throw new Error("expected a number");
}

/** Bytes: `1048576`, `64MiB`, `2GB`. */
export function readBytes(text: string): number {
  return readWithUnit(text, sizeUnits, "a size such as 64MiB, 2GB or a number of bytes");
}

/** Milliseconds: `90s`, `5m`, `1h`, `250ms`; a bare number is seconds. */
export function readDuration(text: string): number {
  return readWithUnit(
    text,
    durationUnits,
    "a duration such as 90s, 5m, 1h or 250ms; a bare number is seconds",
  );
}

/** `true`, `1`, `yes`, `on` and their opposites. */
export function readBoolean(text: string): boolean {
  const value = text.trim().toLowerCase();
  if (["true", "1", "yes", "on"].includes(value)) return true;
  if (["false", "0", "no", "off"].includes(value)) return false;
  throw new Error("expected true or false");
}

function readWithUnit(text: string, units: Readonly<Record<string, number>>, expected: string): number {
  const match = /^\s*(\d+(?:\.\d+)?)\s*([a-z]*)\s*$/i.exec(text);
  const unit = match && units[match[2].toLowerCase()];
  const value = match && unit !== undefined ? Math.round(Number(match[1]) * (unit as number)) : Number.NaN;
  if (Number.isSafeInteger(value)) return value;
  throw new Error(`expected ${expected}`);
}

/** `1234567` -> `1,234,567`. */
export const formatCount = (value: number): string => Math.round(value).toLocaleString("en-US");

/** `1 record`, `1,234 records`. */
export const countOf = (count: number, noun: string, plural = `${noun}s`): string =>
  `${formatCount(count)} ${count === 1 ? noun : plural}`;

/** `8.4 MiB`. */
export function formatBytes(bytes: number): string {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let at = 0;
  let value = bytes;
  while (value >= 1024 && at < units.length - 1) {
    value /= 1024;
    at++;
  }
  return `${at === 0 ? value : value.toFixed(1)} ${units[at]}`;
}

/** `1h 02m`, `2m 05s`, `12.3 s`. */
export function formatDuration(ms: number): string {
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1000);
  const two = (value: number) => String(value).padStart(2, "0");
  if (seconds < 3600) return `${Math.floor(seconds / 60)}m ${two(seconds % 60)}s`;
  return `${Math.floor(seconds / 3600)}h ${two(Math.floor((seconds % 3600) / 60))}m`;
}
