// A tool: what the server is told about it, and the code that runs it.

import type { components } from "../wire.js";
import type { FromJsonSchema, JsonSchema } from "./json-schema.js";
import { isStandardSchema, type StandardIssue, type StandardOutput, type StandardSchema } from "./standard-schema.js";

type Schemas = components["schemas"];

/** What running a tool does: `read` changes nothing, `idempotent` may be run twice, `write` must not be. */
export type Effect = Schemas["Effect"];
/** A file that belongs to an output. */
export type Attachment = Schemas["Attachment"];

/** The schema of a tool's input: a JSON Schema, or a schema of zod, valibot, arktype, … */
export type ToolParameters = StandardSchema | JsonSchema;

/** What a handler gets: what the schema describes. */
export type ToolInput<Parameters> = Parameters extends StandardSchema
  ? StandardOutput<Parameters>
  : unknown extends FromJsonSchema<Parameters>
    ? Record<string, unknown>
    : FromJsonSchema<Parameters>;

export interface ToolDefinition<Parameters extends ToolParameters = ToolParameters> {
  /** What the tool does, for the model. */
  description: string;
  /** What it takes; any object if absent. */
  parameters?: Parameters;
  /** The parameters as JSON Schema, for a Standard Schema whose library cannot write it. */
  jsonSchema?: JsonSchema;
  /** How long a call may take, in ms; the manager's `timeout` if absent. */
  timeout?: number;
  /** Whether a call may be run again when it is unknown what became of it: `write`, the default, is not. */
  effect?: Effect;
  /** A version to show and pass on. */
  version?: string;
}

/** One call of a tool. */
export interface ToolCall {
  /** The full id of the tool. */
  readonly tool: string;
  readonly requestID: string;
  readonly sessionID: string;
  readonly messageID: string;
  readonly callID: string;
  /** Which time the call is offered, from 1. */
  readonly attempt: number;
  /** When the call expires, on this machine's clock. */
  readonly deadline: Date;
  /** Fires when the call is over before the handler is: cancelled, expired, or this client disconnects. */
  readonly signal: AbortSignal;
}

/** What a handler gives: the output for the model, or more than that. */
export type ToolOutput =
  | string
  | {
      /** A short heading for people. */
      title?: string;
      /** For the model. */
      output?: string;
      /** Anything that is JSON, for the application. */
      metadata?: Record<string, unknown>;
      attachments?: Attachment[];
    };

/** The code of a tool. What it throws is the error that the model reads. */
export type ToolHandler<Input> = (input: Input, call: ToolCall) => ToolOutput | Promise<ToolOutput>;

/** A tool that is ready to be registered and run. */
export interface Tool {
  readonly wire: Schemas["Tool"];
  /** Checks the input and runs the handler. */
  run(input: unknown, call: ToolCall): Promise<unknown>;
}

export function makeTool<Parameters extends ToolParameters = JsonSchema>(
  id: string,
  definition: ToolDefinition<Parameters>,
  handler: ToolHandler<ToolInput<Parameters>>,
): Tool {
  const { description, parameters, timeout, effect, version } = definition;
  const schema = definition.jsonSchema ?? toJsonSchema(id, parameters);
  return {
    wire: {
      id,
      description,
      ...(schema !== undefined && { parameters: { ...schema } }),
      ...(timeout !== undefined && { timeout }),
      ...(effect !== undefined && { effect }),
      ...(version !== undefined && { version }),
    },
    async run(input, call) {
      const checked = isStandardSchema(parameters) ? await check(parameters, input) : input;
      return handler(checked as ToolInput<Parameters>, call);
    },
  };
}

function toJsonSchema(id: string, parameters: ToolParameters | undefined): JsonSchema | undefined {
  if (!isStandardSchema(parameters)) return parameters;
  const { vendor, jsonSchema } = parameters["~standard"];
  const advice = "give the JSON Schema beside it, as `jsonSchema`";
  if (!jsonSchema) {
    const hint = vendor === "valibot" ? "; `toStandardJsonSchema` of @valibot/to-json-schema adds it" : "";
    throw new TypeError(
      `the schema of the tool "${id}" (${vendor}) cannot be written as JSON Schema: ${advice}${hint}`,
    );
  }
  try {
    return jsonSchema.input({ target: "draft-2020-12" });
  } catch (cause) {
    const reason = cause instanceof Error ? cause.message : String(cause);
    const message = `the schema of the tool "${id}" cannot be written as JSON Schema (${reason}): ${advice}`;
    throw new TypeError(message, { cause });
  }
}

async function check(schema: StandardSchema, input: unknown): Promise<unknown> {
  const result = await schema["~standard"].validate(input);
  if (result.issues) throw new TypeError(`the input does not fit: ${result.issues.map(describe).join("; ")}`);
  return result.value;
}

function describe({ message, path = [] }: StandardIssue): string {
  const keys = path.map((segment) => String(typeof segment === "object" ? segment.key : segment));
  return keys.length === 0 ? message : `/${keys.join("/")}: ${message}`;
}
