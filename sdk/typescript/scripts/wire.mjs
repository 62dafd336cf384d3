// Writes src/wire.ts from crates/server/openapi.json, which the server's routes are the source of. With --check it only says
// whether it is stale.

import { readFile, writeFile } from "node:fs/promises";

import openapiTypescript, { astToString } from "openapi-typescript";
import ts from "typescript";

const schema = new URL("../../../crates/server/openapi.json", import.meta.url);
const target = new URL("../src/wire.ts", import.meta.url);

const { paths, ...document } = JSON.parse(await readFile(schema, "utf8"));
const { factory } = ts;
const unknown = () => factory.createKeywordTypeNode(ts.SyntaxKind.UnknownKeyword);
const nullType = () => factory.createLiteralTypeNode(factory.createNull());
const text = () => factory.createKeywordTypeNode(ts.SyntaxKind.StringKeyword);
const anyObject = () => factory.createTypeReferenceNode("Record", [text(), unknown()]);

const tree = await openapiTypescript(
  { ...document, paths: {} },
  {
    alphabetize: true,
    rootTypes: true,
    rootTypesNoSchemaPrefix: true,
    // An object of which nothing more is said may hold anything; by default it would be one that holds nothing.
    transform({ type, properties, additionalProperties }) {
      if (properties || additionalProperties || ![type].flat().includes("object")) return undefined;
      return type === "object" ? anyObject() : factory.createUnionTypeNode([anyObject(), nullType()]);
    },
  },
);
const generated = `// Generated from crates/server/openapi.json by \`npm run generate\`.\n\n${astToString(tree)}`;

if (!process.argv.includes("--check")) {
  await writeFile(target, generated);
} else if ((await readFile(target, "utf8")) !== generated) {
  console.error("src/wire.ts is stale: run `npm run generate` in sdk/typescript");
  process.exit(1);
}
