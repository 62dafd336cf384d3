import type { Page } from "playwright-core";

/** Texts whose contrast with what is behind them is below 4.5. */
export function faint(page: Page): Promise<string[]> {
  // As text: the page's own functions, not those of the test's compiler.
  return page.evaluate(`(() => {
    const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    const rgba = (color) => {
      canvas.clearRect(0, 0, 1, 1);
      canvas.fillStyle = color;
      canvas.fillRect(0, 0, 1, 1);
      return canvas.getImageData(0, 0, 1, 1).data;
    };
    const luminance = (color) => {
      const [r, g, b] = [...rgba(color)].slice(0, 3).map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
      return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const behind = (element) => {
      for (let at = element; at; at = at.parentElement) {
        const color = getComputedStyle(at).backgroundColor;
        if (rgba(color)[3] === 255) return color;
      }
      return "white";
    };
    const contrast = (element) => {
      const [one, other] = [luminance(getComputedStyle(element).color), luminance(behind(element))].sort((a, b) => b - a);
      return (one + 0.05) / (other + 0.05);
    };
    const texts = [...document.querySelectorAll("body *")].filter((element) =>
      element.checkVisibility() && !element.closest("[disabled]") && [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim() !== ""));
    return texts.filter((element) => contrast(element) < 4.5).map((element) => element.textContent + ": " + contrast(element).toFixed(2));
  })()`);
}
