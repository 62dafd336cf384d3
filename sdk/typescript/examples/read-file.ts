// Lets a model read the text files of one folder, and nothing outside of it.
//
//   npx tsx examples/read-file.ts ~/notes
//   handback chat --client files 'Read the file "todo.txt"'
//
// What counts is where a path really leads: neither `..` nor a symbolic link leads out.

import { constants, open, realpath } from "node:fs/promises";
import { isAbsolute, relative, resolve, sep } from "node:path";

import { ClientToolsManager } from "@handback/client";

/** How large a file may be, in bytes; a larger one is an error. */
const MAX_BYTES = 256 * 1024;

const url = process.env["HANDBACK_URL"] ?? "http://127.0.0.1:4096";
const [argument] = process.argv.slice(2);
if (argument === undefined) throw new Error("usage: read-file.ts FOLDER");
const folder = await realpath(argument);
const tools = new ClientToolsManager("files", url);

await tools.register(
  "read_file",
  {
    description: "Reads a text file of the user's folder",
    parameters: {
      type: "object",
      properties: {
        path: { type: "string", description: 'The path in the folder, such as "todo.txt" or "ideas/garden.md".' },
      },
      required: ["path"],
    },
    effect: "read",
  },
  async ({ path }) => {
    try {
      return await read(path);
    } catch (error) {
      throw new Error(`${path}: ${error instanceof Error ? error.message : String(error)}`);
    }
  },
);

await tools.connect();
process.once("SIGINT", () => void tools.disconnect());
console.log(`offering the files of ${folder} at ${url}; Ctrl-C ends it`);

async function read(path: string): Promise<string> {
  const target = await realpath(resolve(folder, path));
  mustBeInside(target);
  // Neither a link that was put there meanwhile is followed, nor is a pipe waited for.
  const file = await open(target, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK);
  try {
    // Once more, for what was opened: one of its folders may have become a link. Linux knows it of the file itself.
    mustBeInside(await realpath(process.platform === "linux" ? `/proc/self/fd/${file.fd}` : target));
    if (!(await file.stat()).isFile()) throw new Error("it is not a file");
    const chunks: Buffer[] = [];
    for await (const chunk of file.createReadStream({ end: MAX_BYTES, autoClose: false })) chunks.push(chunk as Buffer);
    const bytes = Buffer.concat(chunks);
    if (bytes.length > MAX_BYTES) throw new Error(`it is larger than ${MAX_BYTES} bytes`);
    return toText(bytes);
  } finally {
    await file.close();
  }
}

function mustBeInside(target: string): void {
  const inner = relative(folder, target);
  if (inner === ".." || inner.startsWith(`..${sep}`) || isAbsolute(inner)) throw new Error("it is outside of the folder");
}

function toText(bytes: Uint8Array): string {
  try {
    return new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    throw new Error("it is not a text in UTF-8");
  }
}
