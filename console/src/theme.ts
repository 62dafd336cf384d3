// Light or dark: as the system has it, unless somebody chose.

import { effect, signal } from "@preact/signals";

const PLACE = "handback.theme";
export const THEMES = ["system", "light", "dark"] as const;
export type Theme = (typeof THEMES)[number];

const kept = localStorage.getItem(PLACE);

export const theme = signal<Theme>(THEMES.find((known) => known === kept) ?? "system");

effect(() => {
  document.documentElement.dataset["theme"] = theme.value;
  localStorage.setItem(PLACE, theme.value);
});
