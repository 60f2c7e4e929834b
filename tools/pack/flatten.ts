// How does the client declare what requests and answers contain, without the library of the schemas?
//
// In the workspace these types are derived from schemas (protocol/shapes), by types of that library. The client has no dependencies, so its
// declarations have the derived types themselves, written out by the compiler, with the descriptions of the schemas as comments.

import { pathToFileURL } from "node:url";
import ts from "typescript-6";

/** The part of a schema that describes its parts. */
type Described = {
  readonly description?: string;
  readonly properties?: Readonly<Record<string, Described>>;
  readonly additionalProperties?: Described | boolean;
  readonly items?: Described;
  readonly anyOf?: readonly Described[];
};

export class Flattener {
  readonly #program: ts.Program;
  readonly #checker: ts.TypeChecker;
  /** Types that are written by hand keep their names: alias -> file that declares it. */
  readonly #named = new Map<ts.Symbol, string>();

  /** @param files modules whose types are written out */
  constructor(files: readonly string[]) {
    this.#program = ts.createProgram(files, {
      module: ts.ModuleKind.NodeNext,
      moduleResolution: ts.ModuleResolutionKind.NodeNext,
      target: ts.ScriptTarget.ESNext,
      strict: true,
      skipLibCheck: true,
      noEmit: true,
      allowImportingTsExtensions: true,
      types: ["node"],
    });
    this.#checker = this.#program.getTypeChecker();
    for (const file of this.#program.getSourceFiles()) {
      for (const alias of file.statements.filter(ts.isTypeAliasDeclaration)) {
        const symbol = this.#checker.getSymbolAtLocation(alias.name);
        if (symbol !== undefined && isExported(alias) && isWrittenByHand(alias))
          this.#named.set(symbol, file.fileName);
      }
    }
  }

  /** The declarations of a module of schemas: the types that it exports, without the schemas. */
  async shapes(file: string): Promise<string> {
    const schemas = (await import(pathToFileURL(file).href)) as Record<string, Described>;
    const out = new Declarations(this.#checker, this.#named, file);
    for (const alias of this.#file(file).statements.filter(ts.isTypeAliasDeclaration)) {
      if (isWrittenByHand(alias)) {
        out.add(alias.getFullText().trim());
        continue;
      }
      if (!isExported(alias)) continue;
      const type = this.#checker.getTypeAtLocation(alias.name);
      const name = alias.name.text;
      const schema = schemas[name];
      out.add(`${comment(schema?.description, "")}export type ${name} = ${out.print(type, schema, "")};`);
    }
    return out.text();
  }

  #file(path: string): ts.SourceFile {
    const file = this.#program.getSourceFile(path);
    if (file === undefined) throw new Error(`the compiler has no ${path}`);
    return file;
  }
}

const isExported = ({ modifiers }: ts.TypeAliasDeclaration): boolean =>
  modifiers?.some(({ kind }) => kind === ts.SyntaxKind.ExportKeyword) ?? false;

/** Whether a type is written in words of the language, and not derived from a schema or another value. */
const isWrittenByHand = ({ type }: ts.TypeAliasDeclaration): boolean =>
  !/\b(Static<|typeof )/.test(type.getText());

/** A documentation comment; "" without a text. */
function comment(text: string | undefined, indent: string): string {
  return text === undefined ? "" : `/** ${text.replaceAll("*/", "* /")} */\n${indent}`;
}

/** The text of a file of declarations that is being written. */
class Declarations {
  readonly #checker: ts.TypeChecker;
  readonly #named: ReadonlyMap<ts.Symbol, string>;
  readonly #file: string;
  readonly #parts: string[] = [];
  /** Names of other files that are used, by file. */
  readonly #imports = new Map<string, Set<string>>();

  constructor(checker: ts.TypeChecker, named: ReadonlyMap<ts.Symbol, string>, file: string) {
    this.#checker = checker;
    this.#named = named;
    this.#file = file;
  }

  add(part: string): void {
    this.#parts.push(part);
  }

  text(): string {
    const imports = [...this.#imports].map(
      ([file, names]) =>
        `import type { ${[...names].toSorted().join(", ")} } from "${relativeTo(this.#file, file)}";`,
    );
    return [...imports, ...this.#parts, "export {};"].join("\n");
  }

  /** A type in the words of the language. @param schema what it was derived from, if that is known */
  print(type: ts.Type, schema: Described | undefined, indent: string): string {
    const name = this.#nameOf(type);
    if (name !== undefined) return name;
    const checker = this.#checker;
    if (type.isUnion()) return this.#union(type, schema, indent);
    if (type.isIntersection()) return type.types.map((part) => this.print(part, schema, indent)).join(" & ");
    if (checker.isTupleType(type)) {
      const parts = checker.getTypeArguments(type as ts.TypeReference);
      return `[${parts.map((part) => this.print(part, undefined, indent)).join(", ")}]`;
    }
    if (checker.isArrayType(type)) {
      const [item] = checker.getTypeArguments(type as ts.TypeReference);
      const printed = this.print(item, schema?.items, indent);
      const isReadonly = type.symbol.name === "ReadonlyArray";
      return `${isReadonly ? "readonly " : ""}${/^[\w"]+$/.test(printed) ? printed : `(${printed})`}[]`;
    }
    if (!(type.flags & ts.TypeFlags.Object)) return checker.typeToString(type);
    return this.#object(type, schema, indent);
  }

  #union(type: ts.UnionType, schema: Described | undefined, indent: string): string {
    const parts = type.types.filter((part) => !(part.flags & ts.TypeFlags.BooleanLiteral));
    const branches = schema?.anyOf;
    const schemaOf = (part: ts.Type) => {
      if (branches === undefined) return schema;
      const isArray = this.#checker.isArrayLikeType(part);
      return branches.find((branch) => (branch.items !== undefined) === isArray);
    };
    const printed = parts.map((part) => this.print(part, schemaOf(part), indent));
    if (parts.length < type.types.length) printed.push("boolean");
    // `null` and `undefined` are last.
    const isLast = (text: string) => Number(text === "null") + 2 * Number(text === "undefined");
    return printed.toSorted((a, b) => isLast(a) - isLast(b)).join(" | ");
  }

  #object(type: ts.Type, schema: Described | undefined, indent: string): string {
    const checker = this.#checker;
    if (type.getCallSignatures().length > 0)
      throw new Error(`a function in an answer: ${checker.typeToString(type)}`);
    const inner = `${indent}  `;
    const members = checker.getIndexInfosOfType(type).map(({ keyType, type: value }) => {
      const { additionalProperties } = schema ?? {};
      const described = typeof additionalProperties === "object" ? additionalProperties : undefined;
      return `[name: ${checker.typeToString(keyType)}]: ${this.print(value, described, inner)};`;
    });
    for (const member of type.getProperties()) {
      const described = schema?.properties?.[member.name];
      const isOptional = (member.flags & ts.SymbolFlags.Optional) !== 0;
      const declared = checker.getTypeOfSymbol(member);
      const value = isOptional ? checker.getNonNullableType(declared) : declared;
      // Without `undefined`, which the question mark says already.
      const mayBeNull =
        isOptional && declared.isUnion() && declared.types.some(({ flags }) => flags & ts.TypeFlags.Null);
      const printed = this.print(value, described, inner) + (mayBeNull ? " | null" : "");
      const key = /^[A-Za-z_]\w*$/.test(member.name) ? member.name : JSON.stringify(member.name);
      members.push(`${comment(described?.description, inner)}${key}${isOptional ? "?" : ""}: ${printed};`);
    }
    if (members.length === 0) return "{}";
    return `{\n${members.map((member) => `${inner}${member}`).join("\n")}\n${indent}}`;
  }

  /** The name of a type that has one of its own. */
  #nameOf(type: ts.Type): string | undefined {
    const alias = type.aliasSymbol;
    const file = alias && this.#named.get(alias);
    if (alias === undefined || file === undefined) return undefined;
    if (file !== this.#file) {
      if (!file.includes("/protocol/")) return undefined;
      const names = this.#imports.get(file) ?? new Set();
      this.#imports.set(file, names.add(alias.name));
    }
    return alias.name;
  }
}

/** An import of one compiled file of declarations in another, both of the same package. */
function relativeTo(from: string, to: string): string {
  const name = to.slice(to.lastIndexOf("/") + 1).replace(/\.ts$/, ".js");
  const folder = (path: string) => path.slice(0, path.lastIndexOf("/"));
  if (folder(from) === folder(to)) return `./${name}`;
  const module = /\/(\w+)\/src\/(.+?)\.ts$/.exec(to);
  if (module === null) throw new Error(`${to} is no module of the workspace`);
  return `@quiverdb/${module[1]}/${module[2]}`;
}
