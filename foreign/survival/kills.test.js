// Turns with tools while their server is killed at any moment: by every protocol, with published clients and the SDK. Every
// one that was taken ends with its answer, nothing is run twice, and nothing is said twice.
//
// `SURVIVAL_CALLS` and `SURVIVAL_KILLS` make it more.

import assert from "node:assert/strict";
import { test } from "node:test";

import { CLIENTS } from "../support/agui.js";
import { talkWithAgui, talkWithAiSdk, talkWithOpencode, talkWithSdk } from "./talks.js";
import { task, World } from "./world.js";

/** Turns have one call or two. */
const TURNS = 200;
const CALLS = Number(process.env["SURVIVAL_CALLS"] ?? 300);
const KILLS = Number(process.env["SURVIVAL_KILLS"] ?? 50);
/** Each kill has a few seconds, on a slow machine; in ms. */
const TIMEOUT = 60_000 + 4_000 * KILLS;

test("turns by every protocol go on while their server is killed again and again", { timeout: TIMEOUT }, async (test) => {
  const world = await World.start(test);
  const talks = await Promise.all(
    ["default", "asking"].flatMap((agent) => [
      talkWithSdk(world, agent),
      talkWithSdk(world, agent),
      talkWithOpencode(world, agent),
      talkWithAiSdk(world, test, agent, `chat-of-${agent}`),
      talkWithAiSdk(world, test, agent, `chat-with-${agent}`),
      ...CLIENTS.map((client) => talkWithAgui(world, test, agent, client)),
    ]),
  );
  /** @type {string[]} */
  const words = [];
  let turns = 0;
  let talking = talks.length;
  const isEnough = () => turns >= TURNS && words.length >= CALLS && world.kills >= KILLS;
  /** What was said in each, and how it was answered. */
  const said = await Promise.all([
    ...talks.map(async (talk, place) => {
      const said = [];
      try {
        for (let number = 0; !isEnough(); number += 1) {
          const tools = chosen(talk.tools);
          const { text, words: own } = task(`${place}.${number}`, tools);
          words.push(...own);
          const answer = await talk.say(text);
          for (const word of own) assert.ok(answer.includes(`did ${word}`), `${text}\nis answered with\n${answer}`);
          said.push(text);
          turns += 1;
        }
      } finally {
        talking -= 1;
      }
      return said;
    }),
    world.killAgainAndAgain(() => isEnough() || talking === 0).then(() => []),
    world.allow("chat", () => talking === 0).then(() => []),
  ]);

  for (const [place, talk] of talks.entries()) {
    const { body: messages } = await world.ask(`/session/${talk.session()}/message`);
    const users = messages.filter((/** @type {any} */ { info }) => info.role === "user");
    assert.deepEqual(users.map(textOf), said[place], `what was said in ${talk.session()}`);
    const ends = messages.filter((/** @type {any} */ { info }) => info.role === "assistant" && info.finish === "stop");
    assert.deepEqual(
      ends.map((/** @type {any} */ { info }) => [info.parentID, info.error]),
      users.map((/** @type {any} */ { info }) => [info.id, undefined]),
      `what was answered in ${talk.session()}`,
    );
  }
  const twice = [...world.runs].filter(([, count]) => count !== 1);
  assert.deepEqual([twice, [...world.runs.keys()].sort()], [[], words.sort()]);
  const { body: calls } = await world.ask("/client-tools/calls?limit=1000");
  assert.deepEqual(calls.filter((/** @type {any} */ { state }) => state !== "done"), []);
  await world.client.close();
  test.diagnostic(`${turns} turns with ${words.length} calls, ${world.kills} kills and ${world.stops} stops`);
});

/**
 * One tool or two, by chance.
 *
 * @param {string[]} tools
 */
function chosen(tools) {
  const one = () => tools[Math.floor(Math.random() * tools.length)];
  return Math.random() < 0.5 ? [one()] : [one(), one()];
}

/** @param {any} message */
function textOf({ parts }) {
  return parts.map((/** @type {any} */ { type, text }) => (type === "text" ? text : "")).join("");
}
