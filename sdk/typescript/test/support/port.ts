// Where a server can be had again.

import { createServer } from "node:net";

/**
 * A port that is free, and none of those that connections to others are made from: one of them could have it just when a
 * server that was stopped wants it back.
 */
export async function lastingPort(): Promise<number> {
  for (;;) {
    const port = 20_000 + Math.floor(Math.random() * 10_000);
    const isFree = await new Promise<boolean>((resolve) => {
      const server = createServer();
      server.once("error", () => resolve(false));
      server.listen(port, "127.0.0.1", () => server.close(() => resolve(true)));
    });
    if (isFree) return port;
  }
}
