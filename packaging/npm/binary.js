// Where the binary for this machine is: in a package of its own, of which npm installs the one that fits.

"use strict";

const { optionalDependencies } = require("./package.json");

const machine = `${process.platform}-${process.arch}`;
const name = `@handback/${machine}`;

/** The path of the binary. Throws an error that says what to do if no package has one for this machine. */
exports.binaryPath = () => {
  try {
    return require.resolve(`${name}/bin/handback`);
  } catch {
    throw new Error(`there is no binary of handback for this machine (${machine}): ${advice()}`);
  }
};

function advice() {
  if (name in optionalDependencies) {
    const without = "npm leaves it out with --omit=optional, and on a Linux without glibc";
    return `the package ${name} is not installed. ${without}. Install handback again, or that package by its name`;
  }
  const names = Object.keys(optionalDependencies).map((name) => name.replace("@handback/", ""));
  return `there are npm packages for ${names.join(", ")}. Elsewhere, build it from its sources with Rust: cargo install handback`;
}
