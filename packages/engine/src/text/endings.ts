// How does a stemmer recognise an ending without its marks?
//
// A term depends on the folded word alone (analyzer.ts), so that *educacion* and *educación* have one term. But many stemmers
// know their suffixes with marks: without them they leave -cion on, and `educaciones` loses it. So a folded word gets the ending
// that words with such letters mostly have, and is stemmed then: -ción. Where words differ in that (Spanish -ria is -ría in
// `vivir`, and -ria in `historia`), longer endings say so.
//
// The endings are those of grammars (Hungarian, Spanish) or were learnt from word lists; what they lose and confuse was measured
// on words of dictionaries and of running text (tools/endings.ts): see docs/decisions/text-analysis.md. Languages that are not
// here lose little when words are simply folded before they are stemmed (Danish, Dutch, Finnish, German, Norwegian, Russian,
// Swedish), or nothing was found to do better (Arabic).

import type { TextLanguage } from "@quiverdb/protocol/shapes/index-definition";
import { fold } from "./fold.ts";

/** Per language: endings as its stemmer expects them. The longest one that matches a word, apart from marks, is used. */
export const endings: Readonly<Partial<Record<TextLanguage, string>>> = {
  catalan: "éssem íem às iïs àveu íeu éssiu aré ió",
  czech:
    "čina ách ých činých ími ými činými čini ákem íkem ám kém ném vém ím ým činým ého čino ému činu činou " +
    "činy é čině eš mů",
  french: "ère ée âmes îmes ères âtes ités ées èrent ât ité",
  hungarian: "nál nél ból ról tól ként ért",
  irish: "íochta óidigh áil ín íocht í",
  italian: "rà derò herò ierò lerò merò nerò rerò terò zerò irò",
  portuguese:
    "ência ável ível ão ção ências ções ásseis ísseis áveis íeis áramos íramos ávamos íamos ássemos " +
    "êssemos íssemos",
  romanian:
    "ea ia ând ţie şte tatii ţii tati şti şi ţi caţi eaţi iaţi laţi naţi saţi zaţi ăţi ăm ştilor ţilor " +
    "ându ă",
  slovene:
    "škega činega čnega čevega iška čema iškima činima čnima čevima čina čna čeva iške čine čne čeve ških " +
    "činih čnih čevih čih škimi činimi čnimi čevimi čini čni čevi čanovi iškem činem čnem čevem čem iškim " +
    "činim čnim čevim čen čin iško čino čno čevo iškemu činemu čnemu čevemu ču čev vić š",
  spanish: "ía logía ión ían ábamos íamos áramos éramos ías í",
  turkish:
    "ğunda ında ğında ıyla ına ğına kça ğa ğinde ğine üne kçe ğe ğini ği ğundan ından ğından ğinden ogin " +
    "ğinin ğin anın arının asının arın ştir adır alıdır asıdır aktır ğunu ğu ğiniz anız alı anı asını arı " +
    "ası ayı ağı ş anmış",
};

/** Replaces the ending of a folded word by the one that the stemmer expects. @param list endings, separated by spaces */
export function endingSpeller(list: string): (word: string) => string {
  const spellings = new Map(list.split(" ").map((ending) => [fold(ending), ending]));
  const longest = Math.max(...Array.from(spellings.keys(), (ending) => ending.length));
  return (word) => {
    for (let length = Math.min(longest, word.length); length > 0; length--) {
      const spelt = spellings.get(word.slice(word.length - length));
      if (spelt !== undefined) return word.slice(0, word.length - length) + spelt;
    }
    return word;
  };
}
