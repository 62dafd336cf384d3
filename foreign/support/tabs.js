// A chat in a real browser, in any number of tabs: how to write in it, and what it shows.

import { readFile } from "node:fs/promises";
import { basename, join } from "node:path";

import { newContext, OUTPUT, servePage } from "./browser.js";
import { Server } from "./server.js";

/** @typedef {import("playwright-core").Page} Page */

export class Tabs {
  /**
   * @param {import("node:test").TestContext} test
   * @param {string} source the file of the page
   * @param {{ config?: string, page?: object, complaints?: RegExp }} [settings] the server's, those that the page finds in its
   * address, and what the page may complain about
   */
  static async open(test, source, { config, page, complaints } = {}) {
    // What is opened first is closed first: pages do not see the server go.
    const context = await newContext(test, complaints);
    const server = await Server.start(test, { config });
    const address = await servePage(test, await readFile(source, "utf8"), basename(source));
    const settings = encodeURIComponent(JSON.stringify({ server: server.url, ...page }));
    const tabs = new Tabs(context, server, `${address}#${settings}`);
    context.on("request", (request) => {
      const path = request.url().startsWith(server.url) && new URL(request.url()).pathname;
      if (path && request.method() !== "OPTIONS") tabs.sent.push(`${request.method()} ${path}`);
    });
    return tabs;
  }

  /**
   * What all tabs have sent to the server.
   * @type {string[]}
   */
  sent = [];

  /**
   * @param {import("playwright-core").BrowserContext} context
   * @param {Server} server
   * @param {string} address
   */
  constructor(context, server, address) {
    this.context = context;
    this.server = server;
    this.address = address;
  }

  async add() {
    const page = await this.context.newPage();
    await page.goto(this.address);
    await page.waitForSelector("textarea");
    return page;
  }

  /** How often something was sent. @param {string} what */
  count(what) {
    return this.sent.filter((sent) => sent === what).length;
  }
}

/**
 * @param {Page} page
 * @param {string} text
 */
export async function say(page, text) {
  await page.fill("textarea", text);
  await page.click("form button");
}

/** Waits until an answer has that text, and the chat is ready. @param {Page} page @param {string} text */
export async function answered(page, text) {
  await page.waitForSelector(`article[data-role=assistant] p:has-text(${JSON.stringify(text)})`);
  await page.waitForSelector("output:text-is('ready')");
}

/** Leaves a picture of the page. @param {Page} page @param {string} name */
export const picture = (page, name) => page.screenshot({ path: join(OUTPUT, `${name}.png`) });
