// Light or dark: as the system has it, unless somebody chose.

import { effect, signal } from "@preact/signals";

import { Kept } from "./storage";

export const THEMES = ["system", "light", "dark"] as const;
export type Theme = (typeof THEMES)[number];

const kept = new Kept(() => localStorage, "handback.theme");

export const theme = signal<Theme>(THEMES.find((known) => known === kept.value) ?? "system");

effect(() => {
  document.documentElement.dataset["theme"] = theme.value;
  kept.value = theme.value;
});
