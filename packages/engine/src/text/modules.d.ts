// What do the untyped packages of text analysis export?

declare module "snowball-stemmers" {
  /** A stemmer has internal state during a word: one call at a time. */
  export function newStemmer(algorithm: string): { stem(word: string): string };
  export function algorithms(): string[];
}

declare module "stopword" {
  const ara: string[],
    ben: string[],
    bul: string[],
    cat: string[],
    ces: string[],
    dan: string[],
    deu: string[];
  const ell: string[],
    eng: string[],
    est: string[],
    eus: string[],
    fas: string[],
    fin: string[],
    fra: string[],
    gle: string[];
  const glg: string[],
    heb: string[],
    hin: string[],
    hrv: string[],
    hun: string[],
    hye: string[],
    ind: string[];
  const ita: string[],
    jpn: string[],
    kor: string[],
    lav: string[],
    lit: string[],
    mar: string[],
    nld: string[];
  const nob: string[],
    pol: string[],
    por: string[],
    ron: string[],
    rus: string[],
    slk: string[],
    slv: string[];
  const spa: string[],
    swe: string[],
    tha: string[],
    tur: string[],
    ukr: string[],
    urd: string[],
    vie: string[];
  const zho: string[];
}
