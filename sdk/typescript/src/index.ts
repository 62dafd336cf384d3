// The package where there is no Node: browsers and the like.

import { HandbackClient, type HandbackClientOptions } from "./client.js";

export { HandbackClient, type HandbackClientOptions, type StartSessionOptions } from "./client.js";
export { type FailureKind, HandbackError } from "./error.js";
export { Http, type HttpOptions, type RequestOptions, type Token } from "./http.js";
export {
  type ModelName,
  type PermissionAnswer,
  type PromptInput,
  type PromptOptions,
  SessionHandle,
  type TurnEvent,
  type TurnOptions,
} from "./session.js";
export { ClientToolsManager, type ClientToolsOptions } from "./tools/manager.js";
export type { ToolPart } from "./transcript.js";
export { type Answer, type Ask, type ReplyOptions, TurnFailed } from "./turn.js";
export type {
  Attachment,
  Call,
  CallState,
  Effect,
  Event as HandbackEvent,
  Message,
  MessageWithParts,
  Model,
  OfferedTool,
  Outcome,
  Part,
  Permission,
  PromptPart,
  Reply,
  Session,
  Status,
  Tokens,
  Tool,
  ToolRequest,
  ToolResult,
  ToolState,
  TurnError,
} from "./wire.js";

/** A client of the server at `baseUrl`: register tools with its `clientTools`, then start a session. */
export function createHandbackClient(options: HandbackClientOptions): HandbackClient {
  return new HandbackClient(options);
}
