// What `draw` draws: one shape after the other, on one canvas.

import { COLOURS, SHAPES } from "./offer";

export const WIDTH = 100;
export const HEIGHT = 60;

export interface Shape {
  shape: (typeof SHAPES)[number];
  color: (typeof COLOURS)[number];
  x: number;
  y: number;
  size: number;
  text: string;
}

/** The input of a call as a shape: the server has checked it, but a call that failed may have any. */
export function shapeOf(input: Record<string, unknown>): Shape | undefined {
  const shape = SHAPES.find((known) => known === input["shape"]);
  if (!shape) return undefined;
  const number = (name: string, otherwise: number) => (typeof input[name] === "number" ? input[name] : otherwise);
  return {
    shape,
    color: COLOURS.find((known) => known === input["color"]) ?? "black",
    x: number("x", WIDTH / 2),
    y: number("y", HEIGHT / 2),
    size: number("size", 30),
    text: typeof input["text"] === "string" ? input["text"] : "",
  };
}

/** A shape in words. */
export function describe({ shape, color, x, y, size, text }: Shape): string {
  const what = shape === "text" ? `the ${color} words "${text}"` : `a ${color} ${shape}`;
  return `${what}, ${size} wide, around ${x},${y}`;
}

/** Paper is white in the dark too: the colours are those that were asked for. */
const PAINT: Record<Shape["color"], string> = {
  red: "#d83a34",
  orange: "#ec8a2c",
  yellow: "#f2c230",
  green: "#2f9e58",
  teal: "#12867a",
  blue: "#2f6fd0",
  purple: "#7f4fc9",
  pink: "#e36aa6",
  brown: "#8a5a34",
  grey: "#8b9592",
  black: "#1b2321",
  white: "#ffffff",
};

/** Draws shapes onto a canvas whose units are those of the tool. */
export function paint(context: CanvasRenderingContext2D, shapes: readonly Shape[]): void {
  context.fillStyle = "#ffffff";
  context.fillRect(0, 0, WIDTH, HEIGHT);
  context.lineWidth = 1.2;
  context.lineCap = "round";
  context.textAlign = "center";
  context.textBaseline = "middle";
  for (const shape of shapes) paintOne(context, shape);
}

function paintOne(context: CanvasRenderingContext2D, { shape, color, x, y, size, text }: Shape): void {
  const half = size / 2;
  context.fillStyle = context.strokeStyle = PAINT[color];
  context.beginPath();
  if (shape === "circle") context.arc(x, y, half, 0, 2 * Math.PI);
  else if (shape === "square") context.rect(x - half, y - half, size, size);
  else if (shape === "rectangle") context.rect(x - half, y - half * 0.6, size, size * 0.6);
  else if (shape === "triangle") {
    context.moveTo(x, y - half * 0.87);
    context.lineTo(x + half, y + half * 0.87);
    context.lineTo(x - half, y + half * 0.87);
  } else if (shape === "line") {
    context.moveTo(x - half, y);
    context.lineTo(x + half, y);
    return context.stroke();
  } else {
    context.font = "600 8px system-ui, sans-serif";
    return context.fillText(text, x, y, Math.max(size, WIDTH - 8));
  }
  context.fill();
}
