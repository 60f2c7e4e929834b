// Which words do people write with and without their marks?
//
// For each language ordinary words with marks; in scripts without case the marks are points, hamzas, nuktas or the like. For a language
// without marks they are names and loan words. Words on one line that are joined by = have one stem.

import type { TextLanguage } from "@quiverdb/protocol/shapes/index-definition";

export const markedWords: Readonly<Record<TextLanguage, string>> = {
  arabic: "أحمد مدرسة كِتَاب إسلام أسئلة مكتبة مُحَمَّد سؤال جزيرة قُرْآن",
  armenian: "եւրոպա արեւ café Zoë",
  basque: "ñabardura andereño=andereñoa piñoi café",
  bengali: "café naïve ১২৩",
  bulgarian: "ѝзток за́мък въ́лна пара́ café",
  catalan: "educació=educacions cançó col·legi=col·legis català història família església óssos llengües",
  chinese: "café naïve Zürich",
  croatian: "škola čovjek žena ćirilica đak kuća noć šuma život čaša",
  czech: "škola=školy=školou žena=ženy kniha=knihou děti český=českého město=města nového řeka=řeky práce",
  danish: "skole=skolen bøger=bøgerne børn=børnene måned=måneder æbler=æblerne gård=gården løb=løber café",
  dutch: "coördinatie reünie financiële café patiënt=patiënten ruïne geïnteresseerd",
  english: "café=cafés naïve résumé façade fiancée=fiancées Zürich jalapeño coöperate coöperation piñata",
  estonian: "õpetaja kool=kool ülikool märts töö küsimus nõukogu öö käsi šokolaad",
  finnish: "kylä=kylässä=kylän päivä=päivää=päivänä työ yö talo=talossa mäki äiti käsi",
  french:
    "éducation éducations=éducation forêt=forêts élève=élèves qualité=qualités créée=créé âge=âges naïf garçon=garçons théâtre",
  galician:
    "educación corazón canción=canción estación café lingüística historia=historia español avión música",
  german: "Straße=Straßen Häuser=Häusern schöne=schönen Bücher=Büchern Mädchen Übung=Übungen Tür=Türen",
  greek: "οδός παιδιά θάλασσα σχολείο ημέρα βιβλία πόλη άνθρωπος γλώσσα ταξίδι",
  hebrew: "שָׁלוֹם סֵפֶר צה״ל ג׳ורג׳ בַּיִת מוֹרָה יֶלֶד",
  hindi: "हिन्दी ज़मीन चाँद पढ़ना लड़का कम्पनी पञ्जाब अण्डा गङ्गा फ़िल्म",
  hungarian:
    "könyvtár=könyvtárban iskolából=iskolától szülő=szülők író=írónak ország=országban víz=vízben kérdés háromért",
  indonesian: "café résumé Zoë naïve",
  irish: "múinteoir páistí teorainn oibríocht=oibríochta Éire máthair bóthar cúirt",
  italian:
    "università città qualità=qualità attività caffè parlerò=parlerà gioventù virtù lunedì possibilità",
  japanese: "café Zürich naïve",
  korean: "café Zürich naïve",
  latvian: "grāmata skola=skola bērns māja šodien žurnāls ķermenis ļaudis ņemt čūska",
  lithuanian: "mokykla=mokykla žmogus šalis ąžuolas ėjimas įstatymas ūkis čia ręsti žemė",
  marathi: "पढ़ाई चाँद अन्तर पञ्च अण्डे कम्पन",
  norwegian: "skole=skolen bøker=bøkene måned=måneder øy gård=gården æra kjære blå årene",
  persian: "آب مدرسه کتاب أحمد قُرآن",
  polish: "książka szkoła łódź żółty świat źródło ćma mąż ręka góra",
  portuguese: "educação=educações nação razão possível ciência=ciências falávamos=falaram avô pão coração",
  romanian: "școală națiune=națiuni oraș cărți=cărțile țară=țări viață înțeles sărbătoare",
  russian:
    "ёлка=ёлки=ёлкой зелёный=зелёная самолёт=самолёты ребёнок щёлочь=щёлочи за́мок орёл звёзды учёный=учёные",
  slovak: "škola žena ľudia mäso kôň čas ďaleko ťava ŕba ĺžka",
  slovene: "šola knjižnica=knjižnice človek žena čas miška noč življenje",
  spanish:
    "educación=educaciones=educativo canción=canciones corazón=corazones niño=niños difícil hablábamos hablarían árbol=árboles lingüística",
  swedish: "skola böcker=böckerna älskar=älska flöde=flöden gård=gården öppen sjöar kött",
  tamil: "café Zürich naïve",
  thai: "café Zürich naïve",
  turkish:
    "kitapları=kitap okulları=okullar çocuğu=çocuklar öğretmen ağaç=ağaçlar şehir=şehirde ışık İstanbul gün",
  ukrainian: "за́мок вода́ слова́ café",
  urdu: "کِتاب أردو مُلک قُرآن",
  vietnamese: "tiếng việt trường đường nước người đọc sách thành phố",
  none: "café naïve Straße Łódź Ελλάδα ёлка हिन्दी quốc",
};
