// What a page writes.

import { createHandbackClient } from "@handback/client";

const client = createHandbackClient({ baseUrl: "/" });
await client.clientTools.register("title", { description: "The title of the page", effect: "read" }, () => document.title);
export const session = await client.startSession();
