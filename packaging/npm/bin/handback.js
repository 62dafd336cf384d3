#!/usr/bin/env node
// Starts the binary for this machine: with the same arguments, standard streams and environment, with the signals that come, and it
// ends as the binary does. Only SIGKILL, of which no process is told, does not reach the binary.

"use strict";

const { spawn } = require("node:child_process");
const { constants } = require("node:os");

const { binaryPath } = require("../binary.js");

/** A terminal sends these to the binary as well. It must not get them twice: the second means "at once". */
const OF_TERMINALS = ["SIGINT", "SIGQUIT", "SIGHUP"];
const hasTerminal = [process.stdin, process.stdout, process.stderr].some((stream) => stream.isTTY);

function run(path) {
  const child = spawn(path, process.argv.slice(2), { stdio: "inherit" });
  for (const signal of OF_TERMINALS) process.on(signal, () => hasTerminal || child.kill(signal));
  process.on("SIGTERM", () => child.kill("SIGTERM"));
  child.once("error", (error) => fail(`${path} cannot be started: ${error.message}`));
  child.once("exit", (code, signal) => {
    process.exitCode = signal ? 128 + constants.signals[signal] : code;
    if (!signal) return;
    process.removeAllListeners(signal);
    process.kill(process.pid, signal);
  });
}

function fail(reason) {
  console.error(`handback: ${reason}`);
  process.exitCode = 1;
}

let path;
try {
  path = binaryPath();
} catch (error) {
  fail(error.message);
}
if (path) run(path);
