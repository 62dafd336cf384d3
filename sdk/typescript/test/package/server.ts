// A real `handback serve`, started for one test and gone with it.

import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import type { TestContext } from "node:test";

import { createHandback, type HandbackOptions } from "../../src/node.js";

export const BINARY = process.env["HANDBACK_BINARY"] ?? resolve(import.meta.dirname, "../../../../target/debug/handback");

/** Starts a server in an empty directory of its own, with this as its handback.toml. */
export async function startServer(test: TestContext, options: HandbackOptions & { config?: string } = {}) {
  const { config = "", ...rest } = options;
  const home = await mkdtemp(join(tmpdir(), "handback-package-"));
  await writeFile(join(home, "handback.toml"), config);
  let said = "";
  const onOutput = (text: string) => (said += text);
  const env = { HOME: home, OPENAI_API_KEY: undefined, ANTHROPIC_API_KEY: undefined };
  const started = await createHandback({ binary: BINARY, cwd: home, env, onOutput, ...rest });
  test.after(async () => {
    await started.server.close();
    await rm(home, { recursive: true, force: true });
    // Node 20 has it; its published types do not.
    const { passed } = test as unknown as { passed?: boolean };
    if (!passed) test.diagnostic(`the server said:\n${said}`);
  });
  return { ...started, home };
}
