// What this page offers, as models are told, and what to say to see it.

import type { JsonSchema, ToolDefinition } from "@handback/client";

export const COLOURS = ["red", "orange", "yellow", "green", "teal", "blue", "purple", "pink", "brown", "grey", "black", "white"] as const;
export const SHAPES = ["circle", "rectangle", "square", "triangle", "line", "text"] as const;

/** How long a person has to answer a question or a request of the browser, in ms. */
const PATIENCE = 5 * 60_000;

const NOTHING: JsonSchema = { type: "object", properties: {}, additionalProperties: false };

interface About {
  title: string;
  /** What it is for, in the user's words. */
  purpose: string;
}

interface PageTool extends About {
  definition: ToolDefinition<JsonSchema>;
}

export type ToolName = "local_time" | "location" | "ask_user" | "read_clipboard" | "draw";

/** The tools of this page; their code is in `tools.ts`. */
export const TOOLS: Record<ToolName, PageTool> = {
  local_time: {
    title: "Local time",
    purpose: "the time and time zone here",
    definition: {
      description: "Tells the date, the time and the time zone where the user is, by the clock of the user's computer.",
      parameters: NOTHING,
      effect: "read",
    },
  },
  location: {
    title: "Location",
    purpose: "where this device is, if you allow it",
    definition: {
      description:
        "Tells where in the world the user is: latitude, longitude and accuracy of the position. The user may refuse.",
      parameters: NOTHING,
      effect: "read",
      timeout: PATIENCE,
    },
  },
  ask_user: {
    title: "Ask the user",
    purpose: "a question, which you answer here",
    definition: {
      description: "Asks the user a question, shown in the page, and waits for the answer that the user types.",
      parameters: {
        type: "object",
        properties: { question: { type: "string", description: "The question, as the user is to read it", minLength: 1 } },
        required: ["question"],
      },
      effect: "read",
      timeout: PATIENCE,
    },
  },
  read_clipboard: {
    title: "Read the clipboard",
    purpose: "the text that you copied last, if you allow it",
    definition: {
      description: "Reads the text in the user's clipboard, which is what the user has copied last. The user may refuse.",
      parameters: NOTHING,
      effect: "read",
      timeout: PATIENCE,
    },
  },
  draw: {
    title: "Draw",
    purpose: "circles, rectangles, lines and words on a canvas",
    definition: {
      description:
        "Draws one shape on the canvas that the user sees; what was drawn before stays. " +
        "The canvas is 100 wide and 60 high, 0,0 is at the top left.",
      parameters: {
        type: "object",
        properties: {
          shape: { type: "string", enum: SHAPES },
          color: { type: "string", enum: COLOURS, description: "Black if absent" },
          x: { type: "number", description: "The middle of the shape, from the left; 50 if absent" },
          y: { type: "number", description: "The middle of the shape, from the top; 30 if absent" },
          size: { type: "number", exclusiveMinimum: 0, description: "How wide it is; 30 if absent" },
          text: { type: "string", maxLength: 200, description: "What to write, for the shape `text`" },
        },
        required: ["shape"],
      },
      effect: "idempotent",
    },
  },
};

/** The tool of the server that pages execute, this one too. */
export const OPEN_URL = "open-url";

/** What the user is told of a tool; of one that is not of this page, its name. */
export function aboutTool(name: string): About {
  if (name === OPEN_URL) return { title: "Open a page", purpose: "a web address, in a new tab" };
  return Object.hasOwn(TOOLS, name) ? TOOLS[name as ToolName] : { title: name, purpose: "" };
}

/** Prompts that show what this is about. The model that is there without a key picks the right tool for each. */
export const SUGGESTIONS = [
  { text: "What time is it here?", shows: "local_time" },
  { text: "Where in the world am I?", shows: "location" },
  { text: 'Ask me "What is your favourite colour?"', shows: "ask_user" },
  { text: "What is in my clipboard?", shows: "read_clipboard" },
  { text: "Draw a red circle", shows: "draw" },
  { text: "Open https://example.com", shows: OPEN_URL },
] as const;
