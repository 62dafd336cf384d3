#!/usr/bin/env node
// Starts the binary for this machine: with the same arguments, standard streams and environment, and it ends as the binary does. The
// binary gets the signals that come, but for two cases: SIGKILL, of which no process is told, and, where the launcher runs in a
// terminal, SIGINT, SIGQUIT and SIGHUP that are sent to the launcher alone and not by the terminal. SIGTERM always arrives.

"use strict";

const { spawn } = require("node:child_process");
const { closeSync, openSync } = require("node:fs");
const { constants } = require("node:os");

const { binaryPath } = require("../binary.js");

/** A terminal sends these to the binary as well. It must not get them twice: the second means "at once". */
const OF_TERMINALS = ["SIGINT", "SIGQUIT", "SIGHUP"];

/** Whether this runs in a terminal. It may, although its standard streams lead elsewhere. */
function isInTerminal() {
  try {
    closeSync(openSync("/dev/tty"));
    return true;
  } catch {
    return false;
  }
}

function run(path) {
  const hasTerminal = isInTerminal();
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
