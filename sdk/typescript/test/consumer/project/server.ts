// What an application in Node writes besides.

import { createHandback, directoryJournal } from "@handback/client";

const { client, server } = await createHandback({ arguments: ["--log", "warn"], journal: directoryJournal("journal") });
const url: string = server.url;
console.log(url, client.clientID);
await server.close();
