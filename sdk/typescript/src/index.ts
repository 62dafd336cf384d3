// The package where there is no Node: browsers and the like.

import { HandbackClient, type HandbackClientOptions } from "./client.js";
import { ClientToolsManager } from "./tools/manager.js";

export type { HandbackClient, HandbackClientOptions, StartSessionOptions } from "./client.js";
export { type FailureKind, HandbackError } from "./error.js";
export type { ExecuteOptions } from "./execute.js";
export { FrontendToolExecutor, type FrontendToolExecutorOptions, type ToolCallNotice, type WatchOptions } from "./frontend/executor.js";
export { openUrl, type OpenedView, type OpenUrlInput, type OpenUrlOptions, type OpenUrlOutput } from "./frontend/open-url.js";
export type {
  FrontendCallPhase,
  FrontendCallState,
  FrontendOutcome,
  FrontendToolCall,
  FrontendToolHandler,
  FrontendToolOptions,
  FrontendToolRequest,
} from "./frontend/state.js";
export { Http, type HttpOptions, type RequestOptions, type Token } from "./http.js";
export { type Answer, type Ask, type ReplyOptions, TurnFailed } from "./news.js";
export type {
  ModelName,
  PermissionAnswer,
  PromptInput,
  PromptOptions,
  SessionHandle,
  TurnEvent,
  TurnOptions,
} from "./session.js";
export type { CallEvent, ConnectionState, ManagerEvents, StateEvent } from "./tools/events.js";
export type { Entry, Journal, Known, Lookup } from "./tools/journal/journal.js";
export { localStorageJournal } from "./tools/journal/local-storage.js";
export { memoryJournal } from "./tools/journal/memory.js";
export type { FromJsonSchema, JsonSchema } from "./tools/json-schema.js";
export type { ClientToolsOptions } from "./tools/options.js";
export type { WebSocketConstructor, WebSocketLike } from "./tools/socket.js";
export type { StandardSchema } from "./tools/standard-schema.js";
export type { ToolCall, ToolDefinition, ToolHandler, ToolInput, ToolOutput, ToolParameters } from "./tools/tool.js";
export type { ToolPart } from "./transcript.js";
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

export { ClientToolsManager };

/** A client of the server at `baseUrl`: register tools with its `clientTools`, then start a session. */
export function createHandbackClient(options: HandbackClientOptions): HandbackClient {
  return new HandbackClient(options, ClientToolsManager);
}
