// What can be chosen?
//
// The lists of the protocol are made beside its schemas, which a page does without. The compiler sees to it that none of their values is missing.

import type { MetadataIndex, MetricName, TextLanguage } from "@quiverdb/protocol/shapes/index-definition";
import type { Role } from "@quiverdb/protocol/shapes/key";

const keysOf = <T extends string>(table: Readonly<Record<T, true>>): readonly T[] =>
  Object.keys(table) as T[];

export const metrics = keysOf<MetricName>({ cosine: true, euclidean: true, dot_product: true });
export const metadataTypes = keysOf<MetadataIndex["type"]>({
  keyword: true,
  number: true,
  boolean: true,
  datetime: true,
});
export const roles = keysOf<Role>({ read: true, write: true, admin: true });
export const languages = keysOf<TextLanguage>({
  arabic: true,
  armenian: true,
  basque: true,
  bengali: true,
  bulgarian: true,
  catalan: true,
  chinese: true,
  croatian: true,
  czech: true,
  danish: true,
  dutch: true,
  english: true,
  estonian: true,
  finnish: true,
  french: true,
  galician: true,
  german: true,
  greek: true,
  hebrew: true,
  hindi: true,
  hungarian: true,
  indonesian: true,
  irish: true,
  italian: true,
  japanese: true,
  korean: true,
  latvian: true,
  lithuanian: true,
  marathi: true,
  norwegian: true,
  persian: true,
  polish: true,
  portuguese: true,
  romanian: true,
  russian: true,
  slovak: true,
  slovene: true,
  spanish: true,
  swedish: true,
  tamil: true,
  thai: true,
  turkish: true,
  ukrainian: true,
  urdu: true,
  vietnamese: true,
  none: true,
});
