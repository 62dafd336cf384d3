// Makes the moving picture of the README from the real console: a playground, whose tools a model calls, and beside it Live, which
// shows the calls. It runs as a test does, with a real server and a real Chromium, and fails if a page complains.
//
// The argument is the file to write. Text is in this machine's fonts, and the milliseconds are those that the calls took.

import { join } from "node:path";

import sharp from "sharp";

import { duration } from "../src/live/words.ts";
import { tookOf } from "../src/world/calls.ts";
import { callRows, connect, openConsole, reads, see, Server, test } from "../test/browser/support.ts";

const [file = join(import.meta.dirname, "../../docs/handback.webp")] = process.argv.slice(2);

/** The model asks before it draws. */
const CONFIG = `[agents.default.permission.tools]\n"client_*_draw" = "ask"\n`;

/** What is beside each other, and below each other, in px. A multiple of 5 is a whole number of pixels. */
const [PLAYGROUND, GAP, LIVE] = [400, 20, 620];
const [BAR, PAGE] = [35, 685];
const [WIDTH, HEIGHT] = [PLAYGROUND + GAP + LIVE, BAR + PAGE];
/** GitHub shows a README about 832 px wide, and many screens have two pixels for each: 1664 in all. */
const SCALE = 1.6;
const LOOK = { deviceScaleFactor: SCALE, colorScheme: "light", reducedMotion: "reduce", locale: "en", timezoneId: "Europe/Berlin" };
/** What is around the pages. */
const STAGE = `<!doctype html>
<style>
  body { display: grid; grid-template-columns: ${PLAYGROUND}px ${LIVE}px; gap: ${GAP}px; height: 100vh; margin: 0; }
  section { border: 1px solid #87928e; border-radius: 10px 10px 0 0; overflow: hidden; }
  h1 { margin: 0; padding: 0 16px; font: 600 15px/${BAR}px system-ui, sans-serif; color: #fff; background: #17211e; }
</style>
<section><h1>The user's browser: the tools run here</h1></section>
<section><h1>Live: every call, as it is made</h1></section>`;

test("the picture is made", async (test) => {
  const server = await Server.start(test, { config: CONFIG });
  await callLaptop(server);
  const open = (page, width) => openConsole(test, server, { ...LOOK, page, viewport: { width, height: PAGE } });
  const [playground, live] = [await open("", PLAYGROUND), await open("live", LIVE)];
  const stage = await photographStage(live.context());
  const frames = [];
  /** Takes a picture of both pages; `delay` is how long it is shown, in ms. */
  const show = async (delay) => {
    await seeCalls(server, live);
    const [left, right] = await Promise.all([playground.screenshot(), live.screenshot()]);
    const pages = [
      { input: left, left: 0, top: BAR * SCALE, blend: "dest-over" },
      { input: right, left: (PLAYGROUND + GAP) * SCALE, top: BAR * SCALE, blend: "dest-over" },
    ];
    frames.push({ delay, pixels: await sharp(stage).composite(pages).raw().toBuffer() });
  };
  await talk(playground, live, show);
  // Frames are one below the other in one tall picture.
  const raw = { width: WIDTH * SCALE, height: HEIGHT * SCALE * frames.length, pageHeight: HEIGHT * SCALE, channels: 4 };
  await sharp(Buffer.concat(frames.map(({ pixels }) => pixels)), { raw })
    .webp({ lossless: true, effort: 1, delay: frames.map(({ delay }) => delay), loop: 0 })
    .toFile(file);
});

/** Calls tools of another client, so that Live has calls from the beginning. */
async function callLaptop(server) {
  const names = ["git_status", "read_file", "run_tests", "open_editor"];
  await connect(server, "laptop", Object.fromEntries(names.map((name) => [name, { run: () => "Done" }])));
  for (const name of names) await server.execute(`client_laptop_${name}`);
}

/** Waits until Live shows all calls with the times that the server has. */
async function seeCalls(server, live) {
  const calls = await server.get("calls");
  const times = calls.map(({ state, times }) => (state === "done" ? duration(tookOf(times)) : "…"));
  await reads(() => callRows(live).locator(".took").allInnerTexts(), times);
}

async function photographStage(context) {
  const page = await context.newPage();
  await page.setViewportSize({ width: WIDTH, height: HEIGHT });
  await page.setContent(STAGE);
  const stage = await page.screenshot({ omitBackground: true });
  await page.close();
  return stage;
}

/** Has a conversation in the playground. `show` is told how long each step of it is shown, in ms. */
async function talk(playground, live, show) {
  const box = playground.getByRole("textbox", { name: "Message" });
  const approve = playground.getByRole("button", { name: "Approve" });
  const say = async (...steps) => {
    for (const typed of steps) {
      await box.fill(typed);
      await show(typed === steps.at(-1) ? 500 : 200);
    }
    await box.press("Enter");
  };
  const seeAnswer = async (tool) => {
    await see(playground.getByText(`The tool ${tool} answered`));
    await see(playground.getByRole("button", { name: "Send" }));
  };

  await playground.clock.setFixedTime("2026-11-19T09:30:00+01:00");
  await see(playground.getByText("This page offers its tools as"));
  await show(900);
  await say("What", "What time is", "What time is it here?");
  await seeAnswer("local_time");
  await show(1400);
  await say("Draw", "Draw a red circle");
  await see(approve);
  await see(live.getByText("Waiting for approval"));
  await show(1400);
  await approve.hover();
  await show(400);
  await approve.click();
  await seeAnswer("draw");
  await show(2000);
}
