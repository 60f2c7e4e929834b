// How does the benchmark use zvec's full-text search?

import { openZvec, zvecCollection } from "../../shared/zvec.ts";
import type { EngineKind } from "../engine.ts";

export const zvec: EngineKind = {
  name: "zvec",
  title: "zvec 0.7.0",
  note: "A collection on disk of one text field; bytes are those of its index's files. k1 and b cannot be set. English: its stemmer; it has no stop words.",
  open({ language, directory }) {
    const module = openZvec();
    const { indexType, isEnglish } = {
      indexType: module.ZVecIndexType.FTS,
      isEnglish: language === "english",
    };
    const indexParams = {
      indexType,
      tokenizerName: "standard",
      filters: isEnglish ? ["lowercase", "stemmer"] : ["lowercase"],
      extraParams: isEnglish ? JSON.stringify({ stemmer_lang: "english" }) : "",
    };
    const { add, finish, idsOf, bytes } = zvecCollection(
      module,
      directory,
      { fields: [{ name: "text", dataType: module.ZVecDataType.STRING, indexParams }] },
      (text: string) => ({ fields: { text } }),
    );
    const params = { indexType, defaultOperator: "OR" };
    return {
      add,
      finish,
      search: (query: string, k) =>
        idsOf({ fieldName: "text", topk: k, fts: { matchString: query }, params }),
      bytes: () => bytes((path) => /[\\/]fts\./.test(path)),
    };
  },
};
