// What the manager asks of SSE and WebSocket alike.

import type { ToolRequest } from "./calls.js";
import type { ToolResult } from "./result.js";

/** How large a message of the server may be, in characters. */
export const MAX_MESSAGE = 8 * 1024 * 1024;

/** Who takes what the server sends. */
export interface Receiver {
  request(request: ToolRequest): void;
  cancel(requestID: string, reason: string): void;
}

/** The name of a client's connection, and what it asks for. */
export interface Address {
  readonly clientID: string;
  /** A newer connection of the same name takes over from an older one that the server still believes in. */
  connection: string;
  /** How long tools and calls stay when it is lost, in ms. */
  readonly grace: number;
  /** A connection that is silent for so long is dead; in ms. */
  readonly silence: number;
}

/** 128 random bits. */
export function randomName(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/** A way to the server: one connection at a time, as many one after the other as it takes. */
export interface Transport {
  /** Opens a connection. It is closed when the signal fires. */
  open(signal: AbortSignal): Promise<Connection>;
  /** Sends a result once. Rejects with a `HandbackError` if the server does not take it. */
  send(requestID: string, result: ToolResult, signal: AbortSignal): Promise<void>;
}

/** An open connection. */
export interface Connection {
  /** Why it is gone, once it is. Never rejects. */
  readonly lost: Promise<Error>;
}

/** Reads JSON and gives its object; an empty one if it is something else, which nobody knows what to do with. */
export function parseObject(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === "object" && value !== null ? (value as Record<string, unknown>) : {};
  } catch {
    return {};
  }
}

/** Passes a call on; one that has no id cannot be answered. */
export function takeRequest(value: unknown, receiver: Receiver): void {
  const request = value as ToolRequest | null | undefined;
  if (typeof request?.requestID === "string" && typeof request.tool === "string") receiver.request(request);
}

export function takeCancel(value: Record<string, unknown>, receiver: Receiver): void {
  const { requestID, reason } = value;
  if (typeof requestID === "string") receiver.cancel(requestID, typeof reason === "string" ? reason : "cancelled");
}
