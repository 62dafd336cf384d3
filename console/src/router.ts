// Which page is shown, by the hash of the address.

import { signal } from "@preact/signals";

export const PAGES = [
  { path: "#/", name: "Playground" },
  { path: "#/live", name: "Live" },
  { path: "#/charts", name: "Charts" },
] as const;

export type Page = (typeof PAGES)[number];

export const page = signal<Page>(read());

window.addEventListener("hashchange", () => (page.value = read()));

/** Anything unknown is the first page. */
function read(): Page {
  return PAGES.find(({ path }) => path === window.location.hash) ?? PAGES[0];
}
