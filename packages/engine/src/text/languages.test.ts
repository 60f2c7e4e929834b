// How does each language analyse a real sentence, and does the table in the documentation match?

import { readFileSync } from "node:fs";
import { type TextLanguage, textLanguages } from "@quiverdb/protocol/shapes/index-definition";
import { describe, expect, test } from "vitest";
import { markedWords } from "../../test/text/marked-words.ts";
import { canonicalStopWord, createAnalyzer } from "./analyzer.ts";
import { fold } from "./fold.ts";
import { languages } from "./languages.ts";
import { tokenize } from "./tokenize.ts";

/** A sentence, and its words: [stop word], word>term, or just the word if that is the term. */
const sentences: Readonly<Record<TextLanguage, readonly [text: string, analyzed: string]>> = {
  arabic: [
    "ذهب الطلاب إلى المدارس وقرأوا الكتب في المكتبات",
    "ذهب الطلاب>طلاب [إلى] المدارس>مدارس وقرأوا>قرا الكتب>كتب [في] المكتبات>مكتب",
  ],
  armenian: [
    "Երեխաները գնում են դպրոց և կարդում են գրքերը",
    "երեխաները>երեխ գնում [են] դպրոց [եւ] կարդում>կարդ [են] գրքերը",
  ],
  basque: [
    "Haurrak eskolara joan dira eta liburuak irakurtzen dituzte",
    "haurrak>haurr eskolara>eskol joan [dira] [eta] liburuak>liburu irakurtzen>irakur dituzte>ditu",
  ],
  bengali: ["শিশুরা স্কুলে যায় এবং বই পড়ে", "শিশুরা স্কুলে [যায়] [এবং] বই পড়ে"],
  bulgarian: [
    "Децата ходят на училище и четат книги в библиотеката",
    "децата ходят [на] училище [и] четат книги [в] библиотеката",
  ],
  catalan: [
    "Els nens van a l'escola i llegeixen els llibres de la biblioteca",
    "[els] nens>nen [van] [a] l'escola>esc [i] llegeixen>lleg [els] llibres>llibr [de] [la] biblioteca>bibliotec",
  ],
  chinese: [
    "北京是中国的首都，学校在北京",
    "北 北京 京 京是 [是] 是中 [中] 中国 国 国的 [的] 的首 首 首都 [都] 学 学校 校 校在 [在] 在北 北 北京 京",
  ],
  croatian: [
    "Djeca idu u školu i čitaju knjige u knjižnici",
    "djeca idu [u] školu>skolu [i] čitaju>citaju knjige [u] knjižnici>knjiznici",
  ],
  czech: [
    "Děti chodí do školy a čtou knihy v knihovnách",
    "děti>det chodí>chod [do] školy>skol [a] čtou>ct knihy>knih [v] knihovnách>knihovn",
  ],
  danish: [
    "Børnene går i skolerne og læser bøgerne på bibliotekerne",
    "børnene>born går>gar [i] skolerne>skol [og] læser>laes bøgerne>bog [på] bibliotekerne>bibliotek",
  ],
  dutch: [
    "De kinderen lopen naar de scholen en lezen boeken in de bibliotheken",
    "[de] kinderen>kinder lopen>lop [naar] [de] scholen>schol [en] lezen>lez boeken>boek [in] [de] bibliotheken>bibliothek",
  ],
  english: [
    "The children's mother was reading books in the libraries",
    "[the] children's>children mother [was] reading>read books>book [in] [the] libraries>librari",
  ],
  estonian: [
    "Lapsed lähevad kooli ja loevad raamatuid",
    "lapsed lähevad>lahevad kooli [ja] loevad raamatuid",
  ],
  finnish: [
    "Lapset kävelevät kouluihin ja lukevat kirjoja kirjastoissa",
    "lapset>laps kävelevät>kavelev kouluihin>koulu [ja] lukevat>lukev kirjoja>kirj kirjastoissa>kirjasto",
  ],
  french: [
    "Les enfants marchent vers l’école et lisent des livres dans les bibliothèques",
    "[les] enfants>enfant marchent vers>ver l'école>ecol [et] lisent [des] livres>livr [dans] [les] bibliothèques>bibliothequ",
  ],
  galician: [
    "Os nenos van á escola e len libros na biblioteca",
    "[os] nenos van [á] escola [e] len libros [na] biblioteca",
  ],
  german: [
    "Die Kinder gehen in die Schulen und lesen die Bücher der Bibliotheken",
    "[die] kinder>kind [gehen] [in] [die] schulen>schul [und] lesen>les [die] bücher>buch [der] bibliotheken>bibliothek",
  ],
  greek: [
    "Τα παιδιά πηγαίνουν στο σχολείο αλλά διαβάζουν και τα βιβλία τους",
    "[τα] παιδιά>παιδια πηγαίνουν>πηγαινουν [στο] σχολείο>σχολειο [αλλά] διαβάζουν>διαβαζουν [και] [τα] βιβλία>βιβλια τους>τουσ",
  ],
  hebrew: ["הילדים קוראים את הספרים של המורה", "הילדים קוראים [את] הספרים [של] המורה"],
  hindi: ["बच्चे स्कूल जाते हैं और किताबें पढ़ते हैं", "बच्चे स्कूल जाते [हैं] [और] किताबें पढ़ते>पढते [हैं]"],
  hungarian: [
    "A gyerekek az iskolákba járnak és könyveket olvasnak a könyvtárakban",
    "[a] gyerekek>gyerek [az] iskolákba>iskol járnak>jar [és] könyveket>konyv olvasnak>olvas [a] könyvtárakban>konyvtar",
  ],
  indonesian: [
    "Anak-anak pergi ke sekolah dan mereka membaca buku",
    "anak anak pergi [ke] sekolah [dan] [mereka] membaca buku",
  ],
  irish: [
    "Tá na páistí ag dul ar scoil agus d'imigh an múinteoir",
    "tá>ta [na] páistí>paisti [ag] dul [ar] scoil [agus] d'imigh>imigh [an] múinteoir>muinteoir",
  ],
  italian: [
    "I bambini vanno a scuola e leggono i libri nelle biblioteche dell'università",
    "[i] bambini>bambin vanno>vann [a] scuola>scuol [e] leggono>legg [i] libri>libr [nelle] biblioteche>bibliotec dell'università>univers",
  ],
  japanese: [
    "東京は日本の都市です",
    "東 東京 京 京は [は] は日 日 日本 本 本の [の] の都 都 都市 市 市で [で] [です] す",
  ],
  korean: [
    "서울은 수도이다. 그리고 부산은 큰 항구이다",
    "서 서울 울 울은 은 수 수도 도 도이 이 이다 다 [그리고] 부 부산 산 산은 은 큰 항 항구 구 구이 이 이다 다",
  ],
  latvian: ["Bērni iet uz skolu un lasa grāmatas", "bērni>berni iet [uz] skolu [un] lasa grāmatas>gramatas"],
  lithuanian: [
    "Vaikai eina į mokyklą ir skaito knygas už biblioteką",
    "vaikai eina [į] mokyklą>mokykla [ir] skaito knygas [už] biblioteką>biblioteka",
  ],
  marathi: ["मुले शाळेत जातात आणि पुस्तके वाचतात", "मुले शाळेत जातात [आणि] पुस्तके वाचतात"],
  norwegian: [
    "Barna går på skolene og leser bøkene i bibliotekene",
    "barna>barn går>gar [på] skolene>skol [og] leser>les bøkene>bok [i] bibliotekene>bibliotek",
  ],
  persian: [
    "کودکان به مدرسه می‌روند و کتاب را می‌خوانند",
    "کودکان>كودكان [به] مدرسه میروند>ميروند [و] کتاب>كتاب [را] میخوانند>ميخوانند",
  ],
  polish: [
    "Dzieci chodzą do szkoły i czytają książki w bibliotece",
    "dzieci chodzą>chodza [do] szkoły>szkoly [i] czytają>czytaja książki>ksiazki [w] bibliotece",
  ],
  portuguese: [
    "As crianças caminham para as escolas e leem livros nas bibliotecas",
    "[as] crianças>crianc caminham>caminh [para] [as] escolas>escol [e] leem livros>livr [nas] bibliotecas>bibliotec",
  ],
  romanian: [
    "Copiii şi profesorii merg la școli și citesc cărțile orașelor",
    "copiii>copii [şi] profesorii>profesor merg [la] școli>scol [și] citesc cărțile>cart orașelor>ora",
  ],
  russian: [
    "Дети ходят в школы и читают книги в библиотеках",
    "дети>дет ходят>ход [в] школы>школ [и] читают>чита книги>книг [в] библиотеках>библиотек",
  ],
  slovak: [
    "Deti chodia do školy a nevedia, či čítajú knihy, keď sú v knižnici",
    "deti chodia [do] školy>skoly [a] nevedia [či] čítajú>citaju knihy [keď] sú>su [v] knižnici>kniznici",
  ],
  slovene: [
    "Otroci hodijo v šole in berejo knjige v knjižnicah",
    "otroci>otroc hodijo>hodij [v] šole>sole [in] berejo>berej knjige>knjig [v] knjižnicah>knjiznicah",
  ],
  spanish: [
    "Los niños caminan a las escuelas y leen libros en las bibliotecas",
    "[los] niños>nin caminan>camin [a] [las] escuelas>escuel [y] leen libros>libr [en] [las] bibliotecas>bibliotec",
  ],
  swedish: [
    "Barnen går till skolorna och läser böckerna på biblioteken",
    "barnen>barn [går] [till] skolorna>skol [och] läser>las böckerna>bock [på] biblioteken>bibliotek",
  ],
  tamil: [
    "குழந்தைகள் பள்ளிகளுக்கு சென்று புத்தகங்களை படிக்கிறார்கள்",
    "குழந்தைகள்>குழந்தை பள்ளிகளுக்கு>பள்ளிகள் சென்று>ச் புத்தகங்களை>புத்தகம் படிக்கிறார்கள்>படி",
  ],
  thai: ["ครูและเด็กอ่านหนังสือ", "ครู [และ] เด็ก อ่าน หนังสือ"],
  turkish: [
    "Türkiye'de hava soğuk değil, çocuklar okullara gidiyor ve kitapları okuyor",
    "türkiye'de>turki hava>hav soğuk>soguk [değil] çocuklar>cocuk okullara>okul gidiyor [ve] kitapları>kitap okuyor",
  ],
  ukrainian: [
    "Діти ходять до школи і читають книги в бібліотеці",
    "діти ходять [до] школи [і] читають книги [в] бібліотеці",
  ],
  urdu: ["بچے اسکول جاتے ہیں اور کتاب پڑھتے ہیں", "بچے اسکول>اسكول جاتے [ہیں] [اور] کتاب>كتاب پڑھتے [ہیں]"],
  vietnamese: [
    "Trẻ em đi học và đọc sách trong thư viện",
    "trẻ>tre em đi>di học>hoc [và] đọc>doc sách>sach trong thư>thu viện>vien",
  ],
  none: [
    "The children are walking to the naïve café",
    "the children are walking to the naïve>naive café>cafe",
  ],
};

/** The words of a sentence as the table above writes them. */
function written(language: TextLanguage, text: string): string {
  const words = createAnalyzer(language).analyze(tokenize(text));
  return words
    .map(({ word, term, dropped }) => (dropped ? `[${word}]` : term === word ? word : `${word}>${term}`))
    .join(" ");
}

test.each(textLanguages)("[Q9] %s: stems and stop words of a sentence", (language) => {
  const [text, analyzed] = sentences[language];
  expect(written(language, text)).toBe(analyzed);
});

describe.each(textLanguages)("[Q21] %s: both spellings of a word have one term", (language) => {
  const analyzer = createAnalyzer(language);
  const termOf = (word: string): string => {
    const terms = analyzer.terms(tokenize(word));
    expect(terms, word).toHaveLength(1);
    return terms[0];
  };
  const families = markedWords[language].split(" ").map((family) => family.split("="));

  test("with marks and without", () => {
    for (const word of families.flat()) {
      const [plain] = tokenize(word).map(fold);
      // A word that is a stop word without its marks is none with them.
      if (analyzer.terms([plain]).length > 0) expect(termOf(plain), word).toBe(termOf(word));
    }
    expect(families.flat().some((word) => tokenize(word).some((each) => fold(each) !== each))).toBe(true);
  });

  test("words of one stem, in either spelling", () => {
    for (const family of families) {
      const [first] = family;
      for (const word of family.flatMap((each) => [each, fold(tokenize(each)[0])]))
        expect(termOf(word), `${word} as ${first}`).toBe(termOf(first));
    }
  });

  test("stop words are left out without their marks too", () => {
    const listed = languages[language].stopWords.map(canonicalStopWord).filter((word) => !word.includes(" "));
    expect(analyzer.terms(listed.map((word) => word.split("'").map(fold).join("'")))).toEqual([]);
  });
});

test.each(textLanguages.filter((language) => languages[language].stemmer !== undefined))(
  "[Q9] %s has a stemmer that makes another word of some",
  (language) => {
    expect(sentences[language][1]).toContain(">");
    const unstemmed = createAnalyzer("none").terms(tokenize(sentences[language][0]));
    const terms = createAnalyzer(language, []).terms(tokenize(sentences[language][0]));
    expect(terms).toHaveLength(unstemmed.length);
    expect(terms).not.toEqual(unstemmed);
  },
);

describe("[Q9] stop words that a list has in another spelling than texts", () => {
  test.each([
    // Lists that the package had in a wrong character set.
    ["lithuanian", "į už šalia jūs vėl žemiau mūsų tačiau manęs", []],
    ["slovak", "či keď veď mňa čo", []],
    ["turkish", "değil diğer eğer meğer", []],
    // Lists with points, blanks and other marks.
    ["slovak", "a", []],
    ["slovene", "itd. npr. etc.", ["itd"]],
    ["hungarian", "stb.", []],
    // A list without accents.
    ["greek", "αλλά αυτές Η ή πώς", []],
    // Two ways to write one letter.
    ["romanian", "şi și ÎȚI îţi", []],
    ["armenian", "և եւ", []],
  ] as const)("%s: %s", (language, text, terms) => {
    expect(createAnalyzer(language).terms(tokenize(text))).toEqual(terms);
  });

  test("and stems with it", () => {
    const terms = createAnalyzer("romanian").terms(tokenize("națiunilor naţiunilor"));
    expect(new Set(terms)).toEqual(new Set(["natiun"]));
  });
});

describe("[Q23] the table of words in docs/guide/text.md", () => {
  const page = readFileSync(new URL("../../../../docs/guide/text.md", import.meta.url), "utf8");
  const rows = [...page.matchAll(/^\| `([a-z]+)` \| `([^`]+)` \| ((?:`[^`]+` )+)\|/gm)];

  test("has rows", () => expect(rows.length).toBeGreaterThan(25));

  test.each(rows.map(([, language, text, terms]) => [language, text, terms]))(
    "%s: %s",
    (language, text, terms) => {
      const expected = [...terms.matchAll(/`([^`]+)`/g)].map(([, term]) => term);
      expect(createAnalyzer(language as TextLanguage).terms(tokenize(text))).toEqual(expected);
    },
  );
});

test("the table of languages in docs/guide/text.md is that of the code", () => {
  const page = readFileSync(new URL("../../../../docs/guide/text.md", import.meta.url), "utf8");
  const rows = [...page.matchAll(/^\| `([a-z]+)` \| (yes|no) \| (\d+) \|/gm)].map((row) => row.slice(1));
  expect(rows).toEqual(
    textLanguages.map((language) => {
      const { stemmer, stopWords } = languages[language];
      return [language, stemmer === undefined ? "no" : "yes", String(stopWords.length)];
    }),
  );
});
