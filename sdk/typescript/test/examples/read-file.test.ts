import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { copyFile, mkdir, rename, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { TestContext } from "node:test";

import { test, within } from "../support/patience.js";
import { Example, scratch } from "./example.js";

/** A folder, and a secret beside it that has its name as a prefix. */
async function folder(test: TestContext): Promise<{ notes: string; secret: string }> {
  const root = await scratch(test);
  const notes = join(root, "notes");
  const secret = join(root, "secret.txt");
  await mkdir(join(notes, "ideas"), { recursive: true });
  await writeFile(join(notes, "todo.txt"), "water the plants\n");
  await writeFile(join(notes, "..todo"), "a strange name");
  await writeFile(join(notes, "ideas/garden.md"), "# Garden");
  await mkdir(join(root, "notes-secret"));
  await writeFile(join(root, "notes-secret/key.txt"), "the secret");
  await writeFile(secret, "the secret");
  return { notes, secret };
}

test("files of the folder are read", async (test) => {
  const { notes } = await folder(test);
  await symlink("ideas/garden.md", join(notes, "link.md"));
  const example = await Example.start(test, "read-file", "files", notes);
  const contents = {
    "todo.txt": "water the plants\n",
    "ideas/garden.md": "# Garden",
    "./ideas/../todo.txt": "water the plants\n",
    "link.md": "# Garden",
    "..todo": "a strange name",
  };
  for (const [path, content] of Object.entries(contents)) assert.equal(await example.output({ path }), content);
});

test("nothing outside of the folder is read", async (test) => {
  const { notes, secret } = await folder(test);
  await symlink(secret, join(notes, "absolute-link"));
  await symlink("../secret.txt", join(notes, "relative-link"));
  await symlink("..", join(notes, "parent"));
  const example = await Example.start(test, "read-file", "files", notes);
  for (const path of [
    "../secret.txt",
    "ideas/../../secret.txt",
    "../notes-secret/key.txt",
    "..",
    secret,
    "/etc/hostname",
    "absolute-link",
    "relative-link",
    "parent/secret.txt",
    "parent/notes-secret/key.txt",
    "/proc/self/root/etc/hostname",
  ]) {
    assert.equal(await example.error({ path }), `${path}: it is outside of the folder`);
  }
});

test("what is no text of a fair size is an error", async (test) => {
  const { notes } = await folder(test);
  await symlink("loop", join(notes, "loop"));
  await writeFile(join(notes, "largest.txt"), "x".repeat(256 * 1024));
  await writeFile(join(notes, "large.txt"), "x".repeat(256 * 1024 + 1));
  await writeFile(join(notes, "image.png"), Buffer.from("\x89PNG", "latin1"));
  execFileSync("mkfifo", [join(notes, "pipe")]);
  const example = await Example.start(test, "read-file", "files", notes);
  const errors = {
    "large.txt": "it is larger than 262144 bytes",
    "image.png": "it is not a text in UTF-8",
    ideas: "it is not a file",
    "": "it is not a file",
    pipe: "it is not a file",
  };
  for (const [path, error] of Object.entries(errors)) assert.equal(await example.error({ path }), `${path}: ${error}`);
  assert.match(await example.error({ path: "nowhere.txt" }), /^nowhere\.txt: ENOENT/);
  assert.match(await example.error({ path: "loop" }), /^loop: ELOOP/);
  assert.match(await example.error({ path: "todo.txt\0.png" }), /null bytes/);
  // What a model reads of it is cut by the server.
  const { body } = await example.server.execute("client_files_read_file", { input: { path: "largest.txt" } });
  assert.equal((body as { output: string }).output.length, 256 * 1024);
});

test("a link that is put there meanwhile does not lead out", async (test) => {
  const { notes } = await folder(test);
  const at = (name: string) => join(notes, name);
  await writeFile(at("harmless"), "harmless");
  await copyFile(at("harmless"), at("swapped"));
  const example = await Example.start(test, "read-file", "files", notes);
  const met = { success: 0, error: 0 };
  const isEnough = () => met.success >= 20 && met.error >= 20;
  const swap = async () => {
    while (!isEnough()) {
      await symlink("../secret.txt", at("link"));
      await rename(at("link"), at("swapped"));
      await copyFile(at("harmless"), at("copy"));
      await rename(at("copy"), at("swapped"));
    }
  };
  const read = async () => {
    while (!isEnough()) {
      const { body } = await example.server.execute("client_files_read_file", { input: { path: "swapped" } });
      const { status, output = "", error = "" } = body as { status: "success" | "error"; output?: string; error?: string };
      assert.match(`${output}${error}`, /^harmless$|^swapped: /);
      met[status] += 1;
    }
  };
  await within("the file and the link are met", Promise.all([swap(), read()]));
});
