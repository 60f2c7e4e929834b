// Which operations does the server have, and what may the body of one look like?

type Schema = {
  readonly type?: string | readonly string[];
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly required?: readonly string[];
  readonly items?: Schema;
  readonly enum?: readonly unknown[];
  readonly const?: unknown;
  readonly default?: unknown;
  readonly minimum?: number;
  readonly examples?: readonly unknown[];
  readonly anyOf?: readonly Schema[];
  readonly oneOf?: readonly Schema[];
  readonly description?: string;
};

type Parameter = {
  readonly name: string;
  readonly in: "path" | "query" | "header";
  readonly required?: boolean;
  readonly description?: string;
};

type Described = {
  readonly operationId?: string;
  readonly summary?: string;
  readonly description?: string;
  readonly tags?: readonly string[];
  readonly parameters?: readonly Parameter[];
  readonly requestBody?: {
    readonly content: Readonly<Record<string, { readonly schema?: Schema; readonly example?: unknown }>>;
  };
};

export type OpenapiDocument = {
  readonly paths: Readonly<Record<string, Readonly<Record<string, Described>>>>;
};

export type Operation = {
  /** `GET /vectordb/collections` */
  readonly key: string;
  readonly method: string;
  readonly path: string;
  readonly tag: string;
  readonly summary: string;
  readonly description: string;
  readonly parameters: readonly Parameter[];
  /** JSON text of an example; undefined if it has no body that can be written. */
  readonly body: string | undefined;
};

const methods = ["get", "head", "post", "put", "patch", "delete"] as const;

export function operationsOf({ paths }: OpenapiDocument): Operation[] {
  return Object.entries(paths).flatMap(([path, item]) =>
    methods.flatMap((method) => {
      const described = item[method];
      if (described === undefined) return [];
      const json = described.requestBody?.content["application/json"];
      const example = json && (json.example ?? exampleOf(json.schema ?? {}));
      return {
        key: `${method.toUpperCase()} ${path}`,
        method: method.toUpperCase(),
        path,
        tag: described.tags?.[0] ?? "Other",
        summary: described.summary ?? path,
        description: described.description ?? "",
        parameters: described.parameters ?? [],
        body: example === undefined ? undefined : JSON.stringify(example, null, 2),
      };
    }),
  );
}

/** A value of a schema: the example or default that it has, or the smallest value with the fields that it requires. */
export function exampleOf(schema: Schema): unknown {
  if (schema.examples !== undefined && schema.examples.length > 0) return schema.examples[0];
  if (schema.const !== undefined) return schema.const;
  if (schema.default !== undefined) return schema.default;
  if (schema.enum !== undefined) return schema.enum[0];
  const [alternative] = schema.anyOf ?? schema.oneOf ?? [];
  if (alternative !== undefined) return exampleOf(alternative);
  const type = typeof schema.type === "string" ? schema.type : schema.type?.[0];
  switch (type) {
    case "object": {
      const required = schema.required ?? [];
      // Without a required field, the first ones show what there is.
      const names = required.length > 0 ? required : Object.keys(schema.properties ?? {}).slice(0, 3);
      return Object.fromEntries(names.map((name) => [name, exampleOf(schema.properties?.[name] ?? {})]));
    }
    case "array":
      return [exampleOf(schema.items ?? {})];
    case "integer":
    case "number":
      return schema.minimum ?? 1;
    case "boolean":
      return true;
    case "string":
      return "text";
    default:
      return null;
  }
}

/** The address of a request. @param values of the parameters, by name; those of the query that are empty are left out */
export function addressOf({ path, parameters }: Operation, values: Readonly<Record<string, string>>): string {
  const filled = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(values[name] ?? ""));
  const query = parameters
    .filter((parameter) => parameter.in === "query" && (values[parameter.name] ?? "") !== "")
    .map(({ name }) => [name, values[name]]);
  const search = new URLSearchParams(query).toString();
  return search === "" ? filled : `${filled}?${search}`;
}
