// A server that answers exactly as a test says.

import { createServer, type IncomingMessage, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import type { TestContext } from "node:test";

/** Starts one that is gone with the test; gives where it is. */
export async function script(test: TestContext, listener: RequestListener): Promise<string> {
  const server = createServer(listener);
  await new Promise<void>((listens) => server.listen(0, "127.0.0.1", listens));
  test.after(() => {
    server.closeAllConnections();
    server.close();
  });
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
}

/** Where nobody listens. */
export async function nowhere(): Promise<string> {
  const server = createServer();
  await new Promise<void>((listens) => server.listen(0, "127.0.0.1", listens));
  const { port } = server.address() as AddressInfo;
  await new Promise((closed) => server.close(closed));
  return `http://127.0.0.1:${port}`;
}

/** What was asked for, in one line. */
export async function lineOf(request: IncomingMessage): Promise<string> {
  return `${request.method} ${request.url} ${await text(request)}`.trim();
}
