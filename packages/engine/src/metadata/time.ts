// Which moment does a text name?
//
//   2024-05-01                     midnight, UTC
//   2024-05-01T10:30               UTC, where no offset is given; seconds and their fraction may be left out
//   2024-05-01T10:30:00.25+02:00   ISO 8601 and RFC 3339; a space may stand for the T
//
// A moment is a number of milliseconds since 1970, as a 64-bit float: today's are exact to a quarter of a microsecond.

const form =
  /^(\d{4})-(\d\d)-(\d\d)(?:[Tt ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,12}))?)?(?:([Zz])|([+-])(\d\d):?(\d\d))?)?$/;

/** Milliseconds since 1970; NaN if the text names no moment. */
export function timeOf(text: string): number {
  const parts = form.exec(text);
  if (parts === null) return Number.NaN;
  const [year, month, day, hour, minute, second] = parts.slice(1, 7).map((part) => Number(part ?? 0));
  const [fraction, sign, offsetHours, offsetMinutes] = [
    parts[7],
    parts[9],
    Number(parts[10] ?? 0),
    Number(parts[11] ?? 0),
  ];
  // A leap second is the second after it.
  if (month < 1 || month > 12 || hour > 23 || minute > 59 || second > 60) return Number.NaN;
  if (offsetHours > 23 || offsetMinutes > 59) return Number.NaN;
  const date = new Date(0);
  date.setUTCFullYear(year, month - 1, day);
  if (day < 1 || date.getUTCDate() !== day) return Number.NaN;
  const offset = (sign === "-" ? -1 : 1) * (offsetHours * 60 + offsetMinutes);
  const milliseconds = fraction === undefined ? 0 : Number(`0.${fraction}`) * 1_000;
  return date.getTime() + ((hour * 60 + minute - offset) * 60 + second) * 1_000 + milliseconds;
}
