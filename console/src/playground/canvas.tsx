import { useEffect, useRef } from "preact/hooks";

import { describe, HEIGHT, paint, type Shape, WIDTH } from "./drawing";

/** Pixels for each unit of the drawing: enough to look at, and 600 kB for each of the many that a conversation may have. */
const SCALE = 5;

/** A drawing, as far as it had come. */
export function Canvas({ shapes }: { shapes: readonly Shape[] }) {
  const canvas = useRef<HTMLCanvasElement>(null);
  const said = `A drawing: ${shapes.map(describe).join("; ")}`;
  useEffect(() => {
    const context = canvas.current?.getContext("2d");
    if (!context) return;
    context.setTransform(SCALE, 0, 0, SCALE, 0, 0);
    paint(context, shapes);
  }, [said]);
  return <canvas ref={canvas} class="drawing" width={WIDTH * SCALE} height={HEIGHT * SCALE} role="img" aria-label={said} />;
}
