// The client of a storm as a process of its own, to be killed in the middle of whatever it does.
// Its arguments: where the server is, the transport, and the directory of its journal.

import { writeSync } from "node:fs";

import { directoryJournal } from "../../src/tools/journal/directory.js";
import { connectToStorm } from "./storm-tools.js";

const [url = "", transport, journal = ""] = process.argv.slice(2);
// Written before the handler goes on: a process that is killed leaves nothing unsaid.
const say = (line: string) => void writeSync(1, `${line}\n`);
const useWebSocket = transport === "websocket";
const manager = await connectToStorm(url, { useWebSocket, journal: directoryJournal(journal) }, say);
process.once("SIGTERM", () => void manager.disconnect().then(() => say("gone")));
say("connected");
