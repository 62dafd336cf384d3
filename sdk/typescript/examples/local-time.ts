// Lets a model ask for the time on this machine.
//
//   npx tsx examples/local-time.ts
//   handback chat --client clock "What is the local time?"

import { ClientToolsManager } from "@handback/client";

const url = process.env["HANDBACK_URL"] ?? "http://127.0.0.1:4096";
const tools = new ClientToolsManager("clock", url);

await tools.register(
  "local_time",
  {
    description: "Tells the local date and time",
    parameters: {
      type: "object",
      properties: {
        time_zone: {
          type: "string",
          description: 'An IANA time zone such as "Europe/Vienna"; that of this machine if absent.',
        },
      },
    },
    effect: "read",
  },
  ({ time_zone }) => {
    const format = new Intl.DateTimeFormat("en-GB", { dateStyle: "full", timeStyle: "full", timeZone: time_zone });
    return `${format.format()} (${format.resolvedOptions().timeZone})`;
  },
);

await tools.connect();
process.once("SIGINT", () => void tools.disconnect());
console.log(`offering local_time at ${url}; Ctrl-C ends it`);
