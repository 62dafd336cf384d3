// The type of the values that a JSON Schema describes, for the usual schemas; anything else is `unknown`.

/** A JSON Schema: an object with any keywords. */
export interface JsonSchema {
  readonly [keyword: string]: unknown;
}

/** What fits a schema that is written as a literal. */
export type FromJsonSchema<Schema> = Schema extends { readonly const: infer Value }
  ? Value
  : Schema extends { readonly enum: readonly (infer Value)[] }
    ? Value
    : Schema extends { readonly anyOf: readonly (infer Option)[] } | { readonly oneOf: readonly (infer Option)[] }
      ? FromEach<Option>
      : Schema extends { readonly type: readonly (infer Type)[] }
        ? FromEachType<Schema, Type>
        : Schema extends { readonly type: infer Type }
          ? FromType<Schema, Type>
          : unknown;

type FromEach<Option> = Option extends unknown ? FromJsonSchema<Option> : never;

type FromEachType<Schema, Type> = Type extends unknown ? FromType<Schema, Type> : never;

type FromType<Schema, Type> = Type extends "string"
  ? string
  : Type extends "number" | "integer"
    ? number
    : Type extends "boolean"
      ? boolean
      : Type extends "null"
        ? null
        : Type extends "array"
          ? FromItems<Schema>
          : Type extends "object"
            ? FromObject<Schema>
            : unknown;

type FromItems<Schema> = Schema extends { readonly items: infer Items } ? FromJsonSchema<Items>[] : unknown[];

type FromObject<Schema> = Schema extends { readonly properties: infer Properties }
  ? FromProperties<Properties, Required<Schema>>
  : Schema extends { readonly additionalProperties: infer Value extends JsonSchema }
    ? Record<string, FromJsonSchema<Value>>
    : Record<string, unknown>;

type FromProperties<Properties, Name> = Flat<
  { -readonly [Key in keyof Properties as Key extends Name ? Key : never]: FromJsonSchema<Properties[Key]> } & {
    -readonly [Key in keyof Properties as Key extends Name ? never : Key]?: FromJsonSchema<Properties[Key]>;
  }
>;

/** The names that must be there. A list that is not written as a literal could hold any. */
type Required<Schema> = Schema extends { readonly required: readonly (infer Name)[] }
  ? string extends Name
    ? never
    : Name
  : never;

type Flat<Type> = { [Key in keyof Type]: Type[Key] };
