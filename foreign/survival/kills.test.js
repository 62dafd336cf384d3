// Turns with tools while their server is killed at any moment: by every protocol, with published clients and the SDK. Every
// one that was taken ends with its answer, nothing is run twice, and nothing is said twice.
//
// `SURVIVAL_CALLS` and `SURVIVAL_KILLS` make it more.

import assert from "node:assert/strict";
import { test } from "node:test";

import { CLIENTS } from "../support/agui.js";
import { talkWithAgui, talkWithAiSdk, talkWithOpencode, talkWithSdk } from "./talks.js";
import { task, World } from "./world.js";

const TURNS = 200;
/** Turns have one call or two. */
const CALLS = Number(process.env["SURVIVAL_CALLS"] ?? 300);
const KILLS = Number(process.env["SURVIVAL_KILLS"] ?? 50);
/** After so many turns another conversation is begun: some clients send all of it each time. */
const TURNS_OF_A_TALK = 20;
/** Each kill has a few seconds, on a slow machine; in ms. */
const TIMEOUT = 60_000 + 4_000 * KILLS;

test("turns by every protocol go on while their server is killed again and again", { timeout: TIMEOUT }, async (test) => {
  const world = await World.start(test);
  const people = ["default", "asking"].flatMap((agent) => [
    () => talkWithSdk(world, agent),
    () => talkWithOpencode(world, agent),
    (/** @type {string} */ name) => talkWithAiSdk(world, test, agent, `chat-${name}`),
    (/** @type {string} */ name) => talkWithAiSdk(world, test, agent, `chat-again-${name}`),
    ...CLIENTS.map((client) => () => talkWithAgui(world, test, agent, client)),
  ]);
  /** @type {string[]} */
  const words = [];
  let turns = 0;
  let talking = people.length;
  let hasFailed = false;
  const isEnough = () => hasFailed || (turns >= TURNS && words.length >= CALLS && world.kills >= KILLS);
  await Promise.all([
    ...people.map(async (begin, place) => {
      try {
        for (let number = 0; !isEnough(); number += 1) {
          const name = `${place}-${number}`;
          const talk = await begin(name);
          const said = [];
          while (said.length < TURNS_OF_A_TALK && !isEnough()) {
            const { text, words: own } = task(`${name}-${said.length}`, chosen(talk.tools));
            words.push(...own);
            const answer = await talk.say(text);
            for (const word of own) assert.ok(answer.includes(`did ${word}`), `${text}\nis answered with\n${answer}`);
            said.push(text);
            turns += 1;
          }
          await check(world, talk.session, said);
        }
      } catch (error) {
        hasFailed = true;
        throw error;
      } finally {
        talking -= 1;
      }
    }),
    world.killAgainAndAgain(() => isEnough() || talking === 0),
    world.allow("chat", () => talking === 0),
  ]);

  const twice = [...world.runs].filter(([, count]) => count !== 1);
  assert.deepEqual([twice, [...world.runs.keys()].sort()], [[], words.sort()]);
  const { body: asks } = await world.ask("/permission");
  assert.deepEqual([asks, await world.openCalls()], [[], []]);
  await world.client.close();
  test.diagnostic(`${turns} turns with ${words.length} calls, ${world.kills} kills and ${world.stops} stops`);
});

/**
 * Checks that each thing was said once and answered once.
 *
 * @param {World} world
 * @param {string} session
 * @param {string[]} said
 */
async function check(world, session, said) {
  const { body: messages } = await world.ask(`/session/${session}/message`);
  const users = messages.filter((/** @type {any} */ { info }) => info.role === "user");
  assert.deepEqual(users.map(textOf), said, `what was said in ${session}`);
  const ends = messages.filter((/** @type {any} */ { info }) => info.role === "assistant" && info.finish === "stop");
  assert.deepEqual(
    ends.map((/** @type {any} */ { info }) => [info.parentID, info.error]),
    users.map((/** @type {any} */ { info }) => [info.id, undefined]),
    `what was answered in ${session}`,
  );
}

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
