// Generated from crates/server/openapi.json by `npm run generate`.

export type paths = Record<string, never>;
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        /** @description The answer to an [`ExecuteRequest`] with `wait: false`. */
        Accepted: {
            /** @description The call's id; its outcome is at `GET /client-tools/calls/{requestID}`. */
            requestID: string;
        };
        /** @description A frontend's report about a call. */
        Ack: {
            /**
             * @description The claimant, if the call was claimed.
             * @default null
             */
            claimant: string | null;
            /**
             * @description What went wrong.
             * @default null
             */
            errorText: string | null;
            /** @description The output, any JSON. */
            output?: unknown;
            /**
             * @description When the frontend began the call, RFC 3339.
             * @default null
             */
            requestedAt: string | null;
            /** @description `success`, `failed` or `timeout`. */
            status: string;
            /** @description The call. */
            toolCallId: string;
        };
        /** @description The answer to an ack or a claim. */
        Acknowledged: {
            /** @description The problem, for people. */
            error?: string | null;
            /** @description True if the same ack was accepted before. */
            ignored?: boolean | null;
            /** @description Whether the ack or claim is accepted. */
            ok: boolean;
            /** @description Why it is not accepted: `conflict`, `expired`, `unknown`, `claimed`, `awaiting-approval`, `invalid`. */
            reason?: string | null;
            /** @description The id of the HTTP request, as in the header `x-request-id` and in the server's log. */
            request?: string | null;
        };
        /** @description A tool that the front end runs itself. */
        AguiTool: {
            /** @description What it does, for the model. */
            description?: string;
            /** @description More data. */
            metadata?: {
                [key: string]: unknown;
            } | null;
            /** @description Its name. */
            name: string;
            /** @description The JSON Schema of its arguments. */
            parameters?: {
                [key: string]: unknown;
            } | null;
        };
        /**
         * @description What the stream does when a call needs approval.
         * @enum {string}
         */
        Approvals: "hold" | "yield";
        /** @description When an ask was made, in milliseconds since 1970. */
        Asked: {
            /**
             * Format: int64
             * @description When it was made.
             */
            created: number;
        };
        /** @description A file that belongs to an output. */
        Attachment: {
            /** @description Its name. */
            filename?: string | null;
            /** @description Its media type. */
            mime: string;
            /** @description Its URL; may be a data URL. */
            url: string;
        };
        /** @description How much of a bound is used. */
        BoundUse: {
            /**
             * Format: int64
             * @description The most that may be used.
             */
            most: number;
            /**
             * Format: int64
             * @description How much is used.
             */
            used: number;
        };
        /** @description Tokens of a provider's cache. */
        CacheTokens: {
            /**
             * Format: int64
             * @description Tokens read from the cache.
             */
            read: number;
            /**
             * Format: int64
             * @description Tokens written to the cache.
             */
            write: number;
        };
        /** @description A call, as `GET /client-tools/calls` lists it. */
        Call: {
            /**
             * Format: int32
             * @description The number of the latest offer, from 1.
             */
            attempt: number;
            /** @description The caller's own id of the call, or "". */
            callID: string;
            /** @description The client that runs it. */
            clientID: string;
            /** @description When it was created, RFC 3339. */
            created: string;
            /** @description When it expires, RFC 3339; absent while the call waits for approval, because its time begins after that. */
            deadline?: string | null;
            /** @description Whether the tool changes something. */
            effect: components["schemas"]["Effect"];
            executionMode?: components["schemas"]["ExecutionMode"] | null;
            /** @description The input; only in the answer about one call. */
            input?: {
                [key: string]: unknown;
            } | null;
            lateResult?: components["schemas"]["Outcome"] | null;
            /** @description Whether the tool may have run, once the call has ended without a result. */
            mayHaveRun?: boolean | null;
            /** @description The message that the call belongs to, or "". */
            messageID: string;
            outcome?: components["schemas"]["Outcome"] | null;
            /** @description The call's id. */
            requestID: string;
            /** @description The session that the call belongs to, or "". */
            sessionID: string;
            /** @description Its state. */
            state: components["schemas"]["CallState"];
            /** @description How long it spent in each phase so far. */
            times: components["schemas"]["Phases"];
            /** @description The full id of the tool. */
            tool: string;
        };
        /** @description The call that an event is about. */
        CallRef: {
            /** @description The caller's own id of the call, or "". */
            callID: string;
            /** @description The client that runs it. */
            clientID: string;
            /** @description The message that the call belongs to, or "". */
            messageID: string;
            /** @description The session that the call belongs to, or "". */
            sessionID: string;
            /** @description The full id of the tool. */
            tool: string;
        };
        /**
         * @description The state of a call.
         * @enum {string}
         */
        CallState: "awaiting_approval" | "queued" | "offered" | "done";
        /** @description `POST /client-tools/cancel`. */
        CancelRequest: {
            /** @description The reason, for the client and the caller. */
            reason?: string | null;
            /** @description The call to cancel. */
            requestID: string;
        };
        /** @description A chat with its messages. */
        Chat: {
            /** @description The chat. */
            id: string;
            /** @description Its messages, in order. */
            messages: components["schemas"]["UiMessage"][];
        };
        /** @description A page's request: the whole conversation, of which the last message is new. */
        ChatRequest: {
            /**
             * @description The agent.
             * @default null
             */
            agent: string | null;
            /** @default null */
            approvals: components["schemas"]["Approvals"] | null;
            /**
             * @description The client whose tools the chat has.
             * @default null
             */
            clientID: string | null;
            /**
             * @description The connection of the client that the request comes from: calls of the turn are offered there first. The header
             *     `x-handback-connection` does the same.
             * @default null
             */
            connection: string | null;
            /** @description The chat, which is a session. */
            id: string;
            /**
             * @description The message that is edited, regenerated or continued.
             * @default null
             */
            messageId: string | null;
            /** @description The conversation that the page knows: `UiMessage`s. */
            messages: components["schemas"]["UiMessage"][];
            /**
             * @description The model, as `providerID/modelID`.
             * @default null
             */
            model: string | null;
            /** @default null */
            tools: components["schemas"]["PageTools"] | null;
            /**
             * @description `submit-message` (also when absent) or `regenerate-message`.
             * @default null
             */
            trigger: string | null;
        };
        /** @description A frontend's claim of a call, so that no other frontend runs it. */
        Claim: {
            /** @description A name that only this frontend uses. */
            claimant: string;
            /**
             * @description True releases the claim instead.
             * @default null
             */
            release: boolean | null;
            /** @description The call. */
            toolCallId: string;
        };
        /** @description A row of `GET /client-tools/clients`. */
        Client: {
            /** @description How many calls are under way. */
            calls: number;
            /** @description How many connections it holds. */
            connections: number;
            /** @description The client's id. */
            id: string;
            /** @description When it was first seen, RFC 3339. */
            since: string;
            /** @description How many tools it has registered. */
            tools: number;
        };
        /** @description The answer to [`ClientTokenRequest`]. */
        ClientToken: {
            /** @description When it expires, RFC 3339. */
            expiresAt: string;
            /** @description The signed token (a JWT). */
            token: string;
        };
        /** @description `POST /auth/client-token`. */
        ClientTokenRequest: {
            /** @description Agents that the token may name besides those that are open to all clients. */
            agents?: string[];
            /** @description The client that the token speaks for. */
            clientID: string;
            /** @description The only session that the token is valid for; absent: all sessions of the client. */
            sessionID?: string | null;
            /**
             * Format: int64
             * @description How long the token is valid, in seconds.
             */
            ttl?: number | null;
        };
        /** @description Something that the model should know. */
        Context: {
            /** @description What it is. */
            description: string;
            /** @description Its value. */
            value: string;
        };
        /** @description `POST /session`. */
        CreateSession: {
            /** @description The agent. */
            agent?: string | null;
            /** @description The client whose tools it has. `metadata.clientID` and the header `x-handback-client` do the same. */
            clientID?: string | null;
            /** @description The session's id; generated when absent. A request that is repeated with it makes no second session. */
            id?: string | null;
            /** @description Data to store with the session. */
            metadata?: {
                [key: string]: unknown;
            } | null;
            model?: components["schemas"]["Model"] | null;
            /** @description The parent session. */
            parentID?: string | null;
            /** @description A heading; generated from the first prompt when absent. */
            title?: string | null;
        };
        /** @description An error of this API. */
        Detail: {
            /** @description The problem, for people. */
            detail: string;
            /** @description The id of the HTTP request, as in the header `x-request-id` and in the server's log. */
            request?: string | null;
        };
        /** @description `POST /client-tools/disconnect`. */
        DisconnectRequest: {
            /** @description The client of the connection. */
            clientID: string;
            /** @description The name that the connection was opened with. */
            connection: string;
        };
        /** @description The answer to a result or a cancel. */
        Done: {
            /** @description True if the same result was accepted before. */
            ignored?: boolean | null;
            /** @description Always true. */
            success: boolean;
        };
        /**
         * @description Whether a tool changes something, and so whether a call may be run again.
         * @enum {string}
         */
        Effect: "read" | "idempotent" | "write";
        /** @description The body of every failure of the client-tools API. */
        ErrorBody: {
            /** @description What went wrong, for programs. */
            code: components["schemas"]["ErrorCode"];
            /** @description More details, if there are any. */
            details?: {
                [key: string]: unknown;
            } | null;
            /** @description What went wrong, for people. */
            error: string;
            /** @description The id of the HTTP request, as in the header `x-request-id` and in the server's log. */
            request?: string | null;
        };
        /**
         * @description The kind of a failure. Each code has one HTTP status.
         * @enum {string}
         */
        ErrorCode: "INVALID_REQUEST" | "UNAUTHORIZED" | "FORBIDDEN" | "NOT_FOUND" | "METHOD_NOT_ALLOWED" | "CONFLICT" | "CANCELLED" | "GONE" | "TOO_LARGE" | "UPGRADE_REQUIRED" | "RATE_LIMITED" | "INTERNAL_ERROR" | "CLIENT_DISCONNECTED" | "UNAVAILABLE" | "TIMEOUT" | "INSUFFICIENT_STORAGE";
        /** @description One event. */
        Event: {
            /** @description The stream is open; always the first event. */
            properties: {
                [key: string]: unknown;
            };
            /** @enum {string} */
            type: "server.connected";
        } | {
            /** @description A call was made. */
            properties: {
                /** @description The client that runs it. */
                clientID: string;
                /** @description The call. */
                request: components["schemas"]["ToolRequest"];
            };
            /** @enum {string} */
            type: "client-tool.request";
        } | {
            /** @description Tools were registered. */
            properties: components["schemas"]["ToolsChanged"];
            /** @enum {string} */
            type: "client-tool.registered";
        } | {
            /** @description Tools were removed. */
            properties: components["schemas"]["ToolsChanged"];
            /** @enum {string} */
            type: "client-tool.unregistered";
        } | {
            /** @description A call is on its way to its client. */
            properties: components["schemas"]["CallRef"];
            /** @enum {string} */
            type: "client-tool.executing";
        } | {
            /** @description A call succeeded. */
            properties: components["schemas"]["CallRef"] & {
                /** @description Always true. */
                success: boolean;
            };
            /** @enum {string} */
            type: "client-tool.completed";
        } | {
            /** @description A call ended in any other way. */
            properties: components["schemas"]["CallRef"] & {
                /** @description The reason. */
                error: string;
                /** @description Whether the tool may have run, if it gave no result. */
                mayHaveRun?: boolean | null;
            };
            /** @enum {string} */
            type: "client-tool.failed";
        } | {
            /** @description A result of a call came too late, and is kept. */
            properties: components["schemas"]["CallRef"] & {
                /** @description How the call had ended. */
                error: string;
                /** @description Whether the tool may have run: always true. */
                mayHaveRun?: boolean | null;
                /** @description The call's id. */
                requestID: string;
            };
            /** @enum {string} */
            type: "client-tool.late";
        } | {
            /** @description A session was created. */
            properties: components["schemas"]["SessionInfo"];
            /** @enum {string} */
            type: "session.created";
        } | {
            /** @description Something about a session changed. */
            properties: components["schemas"]["SessionInfo"];
            /** @enum {string} */
            type: "session.updated";
        } | {
            /** @description A session was deleted. */
            properties: components["schemas"]["SessionInfo"];
            /** @enum {string} */
            type: "session.deleted";
        } | {
            /** @description A turn began, or all turns are over. */
            properties: {
                /** @description The session. */
                sessionID: string;
                /** @description The current status. */
                status: components["schemas"]["Status"];
            };
            /** @enum {string} */
            type: "session.status";
        } | {
            /** @description All turns of a session are over. */
            properties: {
                /** @description The session. */
                sessionID: string;
            };
            /** @enum {string} */
            type: "session.idle";
        } | {
            /** @description A turn ended early. */
            properties: {
                /** @description The reason. */
                error: components["schemas"]["TurnError"];
                /** @description The session. */
                sessionID: string;
            };
            /** @enum {string} */
            type: "session.error";
        } | {
            /** @description A message was created or changed. */
            properties: {
                /** @description The message. */
                info: components["schemas"]["Message"];
                /** @description The session. */
                sessionID: string;
            };
            /** @enum {string} */
            type: "message.updated";
        } | {
            /** @description A part was created or changed. */
            properties: {
                /** @description The text that was added since the last event of this type. */
                delta?: string | null;
                /** @description The current part. */
                part: components["schemas"]["Part"];
                /** @description The session. */
                sessionID: string;
            };
            /** @enum {string} */
            type: "message.part.updated";
        } | {
            /** @description A part was removed, because its provider began the answer again. */
            properties: {
                /** @description The message that it belonged to. */
                messageID: string;
                /** @description The part. */
                partID: string;
                /** @description The session. */
                sessionID: string;
            };
            /** @enum {string} */
            type: "message.part.removed";
        } | {
            /** @description The text of a part has grown. `message.part.updated` has it too, but is not sent for every piece of a long text. */
            properties: {
                /** @description The text that was added. */
                delta: string;
                /** @description The field that has grown; always `text`. */
                field: string;
                /** @description The message. */
                messageID: string;
                /** @description The part. */
                partID: string;
                /** @description The session. */
                sessionID: string;
            };
            /** @enum {string} */
            type: "message.part.delta";
        } | {
            /** @description A call waits until somebody allows it. */
            properties: components["schemas"]["Permission"];
            /** @enum {string} */
            type: "permission.updated";
        } | {
            /** @description A call waits until somebody allows it, for newer clients. */
            properties: components["schemas"]["Permission"];
            /** @enum {string} */
            type: "permission.asked";
        } | {
            /** @description An ask was answered or has expired. */
            properties: {
                /** @description The ask. */
                permissionID: string;
                /** @description The answer, for newer clients. */
                reply: components["schemas"]["Reply"];
                /** @description The ask, for newer clients. */
                requestID: string;
                /** @description The answer. */
                response: components["schemas"]["Reply"];
                /** @description The session. */
                sessionID: string;
            };
            /** @enum {string} */
            type: "permission.replied";
        };
        /** @description `POST /client-tools/execute`. */
        ExecuteRequest: {
            /** @description The caller's own id of the call. */
            callID?: string | null;
            /** @description The tool's input, an object that matches its schema; absent: `{}`. */
            input?: {
                [key: string]: unknown;
            } | null;
            /** @description The message that the call belongs to. */
            messageID?: string | null;
            /**
             * @description The call's id, created by the server when absent. It makes the call safe to repeat: the same id with the same tool and
             *     input is the same call, and gets its outcome.
             */
            requestID?: string | null;
            /** @description The session that the call belongs to. */
            sessionID?: string | null;
            /**
             * Format: double
             * @description How long the call may take, in milliseconds.
             */
            timeout?: number | null;
            /** @description The full id of the tool. */
            toolID: string;
            /** @description False answers 202 at once; the caller fetches the outcome later. */
            wait?: boolean | null;
        };
        /**
         * @description Who runs a call, if not a client.
         * @enum {string}
         */
        ExecutionMode: "frontend";
        /** @description A message. */
        Message: {
            /** @description The agent. */
            agent: string;
            /**
             * Format: double
             * @description Always 0: the server does not know prices.
             */
            cost?: number | null;
            error?: components["schemas"]["TurnError"] | null;
            /** @description Why the model stopped. */
            finish?: string | null;
            /** @description Its id. */
            id: string;
            /** @description The agent, under its older name. */
            mode?: string | null;
            model?: components["schemas"]["Model"] | null;
            /** @description The model that answers. */
            modelID?: string | null;
            /** @description Of an assistant's message, like all fields below: the user's message that it answers. */
            parentID?: string | null;
            path?: components["schemas"]["MessagePath"] | null;
            /** @description The provider of the model. */
            providerID?: string | null;
            /** @description `user` or `assistant`. */
            role: string;
            /** @description The session that it belongs to. */
            sessionID: string;
            /** @description Of a user's message: instructions that override the agent's. */
            system?: string | null;
            /** @description When it was created and completed. */
            time: components["schemas"]["MessageTime"];
            tokens?: components["schemas"]["Tokens"] | null;
            /** @description Of a user's message: tools switched on or off. */
            tools?: {
                [key: string]: boolean;
            } | null;
        };
        /** @description The working directory of an assistant, which the server does not have. */
        MessagePath: {
            /** @description Always empty. */
            cwd: string;
            /** @description Always empty. */
            root: string;
        };
        /** @description When a message was created and completed, in milliseconds since 1970. */
        MessageTime: {
            /**
             * Format: int64
             * @description When it was completed.
             */
            completed?: number | null;
            /**
             * Format: int64
             * @description When it was created.
             */
            created: number;
        };
        /** @description A message and its parts. */
        MessageWithParts: {
            /** @description The message. */
            info: components["schemas"]["Message"];
            /** @description Its parts. */
            parts: components["schemas"]["Part"][];
        };
        /** @description A model, in either of its two forms. */
        Model: {
            /** @description The model's name at the provider, in the other form. */
            id?: string | null;
            /** @description The model's name at the provider. */
            modelID?: string | null;
            /** @description The provider. */
            providerID: string;
        };
        /** @description A request for a new run. */
        NewRun: {
            /** @default null */
            metadata: components["schemas"]["RunMetadata"] | null;
            /**
             * @description The run that it continues.
             * @default null
             */
            parent_run_id: string | null;
        };
        /** @description A request for a new thread. */
        NewThread: {
            /** @default null */
            metadata: components["schemas"]["ThreadMetadata"] | null;
        };
        /** @description A tool that the model is offered, in `GET /session/{id}/tools`. */
        OfferedTool: {
            /** @description The client that runs it. */
            clientID?: string | null;
            /** @description What it does. */
            description: string;
            /** @description The tool's full id. */
            id: string;
            /** @description The name that the model uses. */
            name: string;
            /** @description JSON Schema of the input. */
            parameters: {
                [key: string]: unknown;
            };
            /** @description Whether calls are allowed, asked about or denied. */
            permission: components["schemas"]["Rule"];
            /** @description Where it runs: `client`, `frontend` or `server`. */
            runs: components["schemas"]["Runs"];
        };
        /** @description How a call ended. */
        Outcome: components["schemas"]["OutcomeSuccess"] | {
            /** @description The reason. */
            error: string;
            /** @enum {string} */
            status: "error";
        } | {
            /** @description The reason. */
            error: string;
            /** @enum {string} */
            status: "timeout";
        } | {
            /** @description The reason. */
            error: string;
            /** @enum {string} */
            status: "cancelled";
        } | {
            /** @description The reason. */
            error: string;
            /** @enum {string} */
            status: "denied";
        } | {
            /** @description The reason. */
            error: string;
            /** @enum {string} */
            status: "disconnected";
        };
        /** @description The tool ran. */
        OutcomeSuccess: components["schemas"]["Success"] & {
            /** @enum {string} */
            status: "success";
        };
        /** @description A tool that the page sends and runs itself. */
        PageTool: {
            /**
             * @description What it does, for the model.
             * @default null
             */
            description: string | null;
            /**
             * @description Its name.
             * @default
             */
            name: string;
            /** @description The JSON Schema of its input. */
            parameters?: {
                [key: string]: unknown;
            } | null;
        };
        /** @description The tools of a page, for the OpenAPI document. */
        PageTools: components["schemas"]["PageTool"][] | {
            [key: string]: components["schemas"]["PageTool"];
        };
        /** @description A part of a message. */
        Part: {
            /** @description Of `tool`: the id of the call. */
            callID?: string | null;
            /**
             * Format: double
             * @description Of `step-finish`: always 0.
             */
            cost?: number | null;
            /** @description Of `file`: its name. */
            filename?: string | null;
            /** @description Its id. */
            id: string;
            /** @description The message that it belongs to. */
            messageID: string;
            /** @description Of `file`: its media type. */
            mime?: string | null;
            /** @description Of `step-finish`: why the model stopped. */
            reason?: string | null;
            /** @description The session that it belongs to. */
            sessionID: string;
            state?: components["schemas"]["ToolState"] | null;
            /** @description Of `text` and `reasoning`: the text. */
            text?: string | null;
            time?: components["schemas"]["Span"] | null;
            tokens?: components["schemas"]["Tokens"] | null;
            /** @description Of `tool`: the tool's full id. */
            tool?: string | null;
            /** @description `text`, `reasoning`, `file`, `tool`, `step-start` or `step-finish`. */
            type: string;
            /** @description Of `file`: its URL. */
            url?: string | null;
        };
        /**
         * @description A call that waits until somebody allows it: `permission.updated`, `permission.asked`, `GET /permission`. It has the
         *     fields of both generations of the SDK.
         */
        Permission: {
            /** @description What `always` would allow: the tool's full id. */
            always: string[];
            /** @description The call. */
            callID: string;
            /** @description The client that would run it. */
            clientID: string;
            /** @description Its id. */
            id: string;
            /** @description The input that the model chose. */
            input: {
                [key: string]: unknown;
            };
            /** @description The message. */
            messageID: string;
            /** @description The tool and the input again, for older clients. */
            metadata: components["schemas"]["PermissionMetadata"];
            /** @description The tool's full id. */
            pattern: string;
            /** @description The tool's full id. */
            patterns: string[];
            /** @description Always `client_tool`. */
            permission: string;
            /** @description The session. */
            sessionID: string;
            /** @description When the ask was made. */
            time: components["schemas"]["Asked"];
            /** @description A question for people. */
            title: string;
            /** @description The tool's full id. */
            tool: string;
            /** @description Always `client_tool`. */
            type: string;
        };
        /** @description The tool and the input of an ask, for older clients. */
        PermissionMetadata: {
            /** @description The input that the model chose. */
            input: {
                [key: string]: unknown;
            };
            /** @description The tool's full id. */
            tool: string;
        };
        /** @description `POST /permission/{id}/reply`. */
        PermissionReply: {
            /** @description The input that overrides the model's. */
            input?: {
                [key: string]: unknown;
            } | null;
            /** @description Why the call is rejected, for the model. */
            message?: string | null;
            /** @description The answer. */
            reply: components["schemas"]["Reply"];
        };
        /** @description `POST /session/{id}/permissions/{permissionID}`. */
        PermissionResponse: {
            /** @description The input that overrides the model's. */
            input?: {
                [key: string]: unknown;
            } | null;
            /** @description Why the call is rejected, for the model. */
            message?: string | null;
            /** @description The answer. */
            response: components["schemas"]["Reply"];
        };
        /** @description How long a call spent in each phase, in milliseconds. */
        Phases: {
            /**
             * Format: double
             * @description Waiting for approval.
             */
            approval: number;
            /**
             * Format: double
             * @description With the client.
             */
            execute: number;
            /**
             * Format: double
             * @description Waiting for a connection.
             */
            queue: number;
        };
        /** @description `POST /session/{id}/message` and `POST /session/{id}/prompt_async`. */
        Prompt: {
            /** @description The agent for this turn. */
            agent?: string | null;
            /** @description The client that sends it. The header `x-handback-client` does the same. */
            clientID?: string | null;
            /**
             * @description The connection of the client that the prompt comes from: calls of the turn are offered there first. The header
             *     `x-handback-connection` does the same.
             */
            connection?: string | null;
            /** @description The id of the user's message; created when absent. */
            messageID?: string | null;
            model?: components["schemas"]["Model"] | null;
            /** @description True stores the message without answering it. */
            noReply?: boolean | null;
            /** @description The parts of the user's message. */
            parts: components["schemas"]["PromptPart"][];
            /** @description Instructions that override the agent's. */
            system?: string | null;
            /** @description Tools switched on or off for this turn, by name, full id or pattern. */
            tools?: {
                [key: string]: boolean;
            } | null;
        };
        /** @description A part of a prompt. */
        PromptPart: {
            /** @description The text. */
            text: string;
            /** @enum {string} */
            type: "text";
        } | {
            /** @description Its name. */
            filename?: string | null;
            /** @description Its media type. */
            mime: string;
            /** @enum {string} */
            type: "file";
            /** @description Its URL; may be a data URL. */
            url: string;
        };
        /**
         * @description Whether a provider of models has a key. The key itself is never sent.
         * @enum {string}
         */
        ProviderKey: "set" | "missing" | "none";
        /** @description The answer to [`RegisterRequest`]. */
        Registered: {
            /** @description The full ids of the tools. */
            registered: string[];
        };
        /** @description `POST /client-tools/register`. */
        RegisterRequest: {
            /** @description The client that runs the tools. */
            clientID: string;
            /** @description Offers the tools in this session only. */
            sessionID?: string | null;
            /** @description The tools; either all or none are registered. */
            tools: components["schemas"]["Tool"][];
        };
        /**
         * @description An answer to an ask.
         * @enum {string}
         */
        Reply: "once" | "always" | "reject";
        /** @description `POST /client-tools/result`, as it is written. Reading also accepts the fields of the result beside `requestID`. */
        ResultRequest: {
            /** @description The call that is answered. */
            requestID: string;
            /** @description The result. */
            result: components["schemas"]["ToolResult"];
        };
        /** @description An answer to an interrupt. */
        Resume: {
            /** @description The id of the interrupt. */
            interruptId: string;
            /** @description More data. */
            metadata?: {
                [key: string]: unknown;
            } | null;
            /** @description The answer, any JSON. */
            payload?: unknown;
            /** @description Whether it was answered. */
            status: components["schemas"]["ResumeStatus"];
        };
        /**
         * @description Whether an interrupt was answered.
         * @enum {string}
         */
        ResumeStatus: "resolved" | "cancelled";
        /** @description A room: an agent to talk to. */
        Room: {
            /** @description What it is for. */
            description?: string;
            /** @description Its id. */
            id: string;
            /** @description Its name. */
            name: string;
            /** @description Suggestions for the first message. */
            suggestions?: string[];
            /** @description Its greeting. */
            welcome_message?: string;
        };
        /**
         * @description Whether calls are allowed, asked about or denied.
         * @enum {string}
         */
        Rule: "allow" | "ask" | "deny";
        /** @description A run. */
        Run: {
            /** @description When it was created (RFC 3339). */
            created: string;
            /** @description Its events so far: [`Event`](crate::agui::Event)s. Null in listings. */
            events?: {
                [key: string]: unknown;
            }[] | null;
            /** @description When it ended (RFC 3339). */
            finished?: string | null;
            metadata?: components["schemas"]["RunMetadata"] | null;
            /** @description The run that it continues. */
            parent_run_id?: string | null;
            /** @description Its id. */
            run_id: string;
            /** @description Its input: a [`RunAgentInput`](crate::agui::RunAgentInput). Null in listings. */
            run_input?: {
                [key: string]: unknown;
            } | null;
            /** @description Its thread. */
            thread_id: string;
            usage?: components["schemas"]["RunUsage"] | null;
        };
        /**
         * @description The input of a run: the whole conversation, and what the front end adds.
         *
         *     `M` can be raw JSON, to parse messages one by one: most of them are known already. Names in `snake_case` are
         *     accepted too, as in the protocol's Python types, and null for an empty list, as in Go.
         */
        RunAgentInput_Value: {
            /** @description What the model should know besides the conversation. */
            context?: components["schemas"]["Context"][];
            /** @description Other data of the application, any JSON. */
            forwardedProps?: unknown;
            /** @description The conversation that the front end knows. */
            messages: {
                [key: string]: unknown;
            }[];
            /** @description The run that this one continues. */
            parentRunId?: string | null;
            /** @description The version of the protocol that the front end speaks; absent before 1.0. */
            protocolVersion?: string | null;
            /** @description Answers to the interrupts that the last run ended with. */
            resume?: components["schemas"]["Resume"][] | null;
            /** @description The id of this run. */
            runId: string;
            /** @description The application's state, any JSON. */
            state?: unknown;
            /** @description The id of the conversation. */
            threadId: string;
            /** @description Tools that the front end runs itself. */
            tools?: components["schemas"]["AguiTool"][];
        };
        /** @description The label of a run. */
        RunMetadata: {
            /**
             * @description Its label.
             * @default null
             */
            label: string | null;
        };
        /**
         * @description Where a tool runs.
         * @enum {string}
         */
        Runs: "client" | "frontend" | "server";
        /** @description The usage of a run. */
        RunUsage: {
            /**
             * Format: int64
             * @description Tokens read.
             */
            input_tokens: number;
            /**
             * Format: int64
             * @description Tokens written.
             */
            output_tokens: number;
            /**
             * Format: int64
             * @description Requests to the model.
             */
            requests: number;
            /**
             * Format: int64
             * @description Tool calls.
             */
            tool_calls: number;
        };
        /** @description How much there is on a server at the moment. */
        ServerCounts: {
            /**
             * Format: int64
             * @description Calls under way.
             */
            calls: number;
            /**
             * Format: int64
             * @description Known clients.
             */
            clients: number;
            /**
             * Format: int64
             * @description Open connections of clients.
             */
            connections: number;
            /**
             * Format: int64
             * @description Registered tools.
             */
            tools: number;
        };
        /** @description How a server is. */
        ServerStatus: {
            /** @description How much of each bound is used, by the setting that bounds it. A setting without a limit is not listed. */
            bounds: {
                [key: string]: components["schemas"]["BoundUse"];
            };
            /** @description How much there is at the moment. */
            counts: components["schemas"]["ServerCounts"];
            /** @description The model that answers when no message, session or agent names one, as `providerID/modelID`. */
            model: string;
            openFiles?: components["schemas"]["BoundUse"] | null;
            /** @description The configured providers of models, by name. */
            providers: {
                [key: string]: components["schemas"]["ProviderKey"];
            };
            /** @description Whether it takes new calls, as `GET /readyz` says. */
            ready: boolean;
            /** @description Where it keeps sessions and calls. */
            store: components["schemas"]["StoreKind"];
            /**
             * Format: int64
             * @description What its clock shows, in milliseconds since 1970.
             */
            time: number;
            /**
             * Format: int64
             * @description How long it has run, in milliseconds.
             */
            uptime: number;
            /** @description The version of the server. */
            version: string;
        };
        /** @description A session. */
        Session: {
            /** @description The agent. */
            agent?: string | null;
            /** @description The client whose tools it has. */
            clientID?: string | null;
            /** @description Always empty: sessions belong to clients, not to directories. */
            directory: string;
            /** @description Its id. */
            id: string;
            /** @description The data stored with the session. */
            metadata?: {
                [key: string]: unknown;
            } | null;
            model?: components["schemas"]["Model"] | null;
            /** @description The parent session. */
            parentID?: string | null;
            /** @description Always `global`. */
            projectID: string;
            /** @description The same as `id`. */
            slug: string;
            /** @description When it was created and last used. */
            time: components["schemas"]["SessionTime"];
            /** @description A heading. */
            title: string;
            /** @description The version of the server. */
            version: string;
        };
        /** @description A session that was created, changed or deleted. */
        SessionInfo: {
            /** @description The session's data. */
            info: components["schemas"]["Session"];
            /** @description The session. */
            sessionID: string;
        };
        /** @description When a session was created and last used, in milliseconds since 1970. */
        SessionTime: {
            /**
             * Format: int64
             * @description When it was created.
             */
            created: number;
            /**
             * Format: int64
             * @description When something last happened in it.
             */
            updated: number;
        };
        /** @description When something began and ended, in milliseconds since 1970. */
        Span: {
            /**
             * Format: int64
             * @description Its end.
             */
            end?: number | null;
            /**
             * Format: int64
             * @description Its beginning.
             */
            start: number;
        };
        /** @description Whether a turn is under way. */
        Status: {
            /** @enum {string} */
            type: "idle";
        } | {
            /** @enum {string} */
            type: "busy";
        };
        /**
         * @description Where a server keeps sessions and calls.
         * @enum {string}
         */
        StoreKind: "database" | "memory";
        /** @description The fields of a successful result. */
        Success: {
            /** @description Files that belong to the output. */
            attachments?: components["schemas"]["Attachment"][] | null;
            /** @description More data of the client, an object. */
            metadata?: {
                [key: string]: unknown;
            } | null;
            /** @description The output, for the model. */
            output?: string;
            /** @description A short heading for people. */
            title?: string;
        };
        /** @description A thread. */
        Thread: {
            /** @description When it was created (RFC 3339). */
            created: string;
            metadata?: components["schemas"]["ThreadMetadata"] | null;
            /** @description Its room. */
            room_id: string;
            /** @description Its runs by id, without their events; null in a list of threads. */
            runs?: {
                [key: string]: components["schemas"]["Run"];
            } | null;
            /** @description Its id. */
            thread_id: string;
        };
        /** @description The name and description of a thread. */
        ThreadMetadata: {
            /**
             * @description Its description.
             * @default null
             */
            description: string | null;
            /**
             * @description Its name.
             * @default null
             */
            name: string | null;
        };
        /** @description The threads of a room. */
        Threads: {
            /** @description The threads, most recently used first. */
            threads: components["schemas"]["Thread"][];
        };
        /** @description Tokens used. */
        Tokens: {
            /** @description Tokens of the provider's cache. */
            cache: components["schemas"]["CacheTokens"];
            /**
             * Format: int64
             * @description Tokens read, without cached ones.
             */
            input: number;
            /**
             * Format: int64
             * @description Tokens written, without reasoning.
             */
            output: number;
            /**
             * Format: int64
             * @description Tokens written while reasoning.
             */
            reasoning: number;
        };
        /** @description A tool, as a client registers it (`id` is the tool's own name) and as it is listed (`id` is `client_{clientID}_{name}`). */
        Tool: {
            /** @description What the tool does, for the model. */
            description?: string;
            effect?: components["schemas"]["Effect"] | null;
            /** @description The tool's name. */
            id: string;
            /** @description JSON Schema of the input; absent: any object. */
            parameters?: {
                [key: string]: unknown;
            } | null;
            /**
             * Format: double
             * @description How long a call may take, in milliseconds.
             */
            timeout?: number | null;
            /** @description A version for people and programs to read. */
            version?: string | null;
        };
        /** @description A call, as its client receives it. */
        ToolRequest: {
            /**
             * Format: int32
             * @description The number of this offer, from 1.
             */
            attempt?: number;
            /** @description The caller's own id of the call, or "". */
            callID: string;
            /** @description When the call expires, RFC 3339. */
            deadline?: string;
            /** @description Whether the tool changes something. */
            effect?: components["schemas"]["Effect"];
            executionMode?: components["schemas"]["ExecutionMode"] | null;
            /** @description The input, which matches the tool's schema. */
            input: {
                [key: string]: unknown;
            };
            /** @description The message that the call belongs to, or "". */
            messageID: string;
            /** @description The call's id, to answer with. */
            requestID: string;
            /** @description The session that the call belongs to, or "". */
            sessionID: string;
            /** @description The full id of the tool. */
            tool: string;
            /** @description Always `client-tool-request`. */
            type: string;
        };
        /** @description A client's result of a call, which the caller receives. */
        ToolResult: components["schemas"]["ToolResultSuccess"] | {
            /** @description The reason. */
            error: string;
            /** @enum {string} */
            status: "error";
        };
        /** @description The tool ran. */
        ToolResultSuccess: components["schemas"]["Success"] & {
            /** @enum {string} */
            status: "success";
        };
        /** @description Tools of one client that were registered or removed. */
        ToolsChanged: {
            /** @description The client. */
            clientID: string;
            /** @description The full ids of the tools. */
            toolIDs: string[];
        };
        /** @description The state of a tool call. */
        ToolState: {
            /** @description Of `completed`: files, as parts of type `file`. */
            attachments?: components["schemas"]["Part"][] | null;
            /** @description Of `error`: the message. */
            error?: string | null;
            /** @description The input, an object. */
            input?: {
                [key: string]: unknown;
            } | null;
            /** @description Of `completed`: more data of the tool. */
            metadata?: {
                [key: string]: unknown;
            } | null;
            /** @description Of `completed`: the output. */
            output?: string | null;
            /** @description Of `pending`: the arguments that the model has written so far. */
            raw?: string | null;
            /** @description `pending`, `running`, `completed` or `error`. */
            status: string;
            time?: components["schemas"]["Span"] | null;
            /** @description Of `completed`: a short heading. */
            title?: string | null;
        };
        /** @description Why a turn ended early; also the body of every error of this API. */
        TurnError: {
            /** @description The details of the error. */
            data: components["schemas"]["TurnErrorData"];
            /**
             * @description The kind of error: `MessageAbortedError`, `ProviderAuthError`, `APIError`, `UnknownError`; for requests
             *     `BadRequest`, `NotFoundError`, `ConflictError` and others.
             */
            name: string;
        };
        /** @description The details of an error. */
        TurnErrorData: {
            /** @description Whether a retry may succeed. */
            isRetryable?: boolean | null;
            /** @description The message, for people. */
            message?: string;
            /** @description The provider that refused the key. */
            providerID?: string | null;
            /** @description Why a prompt is refused with 409: `queue` (too many prompts wait) or `taken` (the message id is in use). */
            reason?: string | null;
            /** @description For requests: the id of the HTTP request, as in the header `x-request-id` and in the server's log. */
            request?: string | null;
            /**
             * Format: int32
             * @description The status of the provider's answer.
             */
            statusCode?: number | null;
        };
        /** @description A question to the user, and the answer. */
        UiApproval: {
            /**
             * @description The answer, once there is one.
             * @default null
             */
            approved: boolean | null;
            /**
             * @description The id of the ask.
             * @default
             */
            id: string;
            /**
             * @description Why the call is rejected.
             * @default null
             */
            reason: string | null;
        };
        /** @description A message in the page's form: an assistant's message has all steps of a turn. */
        UiMessage: {
            /**
             * @description Its id.
             * @default
             */
            id: string;
            /**
             * @description Its parts.
             * @default []
             */
            parts: components["schemas"]["UiPart"][];
            /**
             * @description `user`, `assistant` or `system`.
             * @default
             */
            role: string;
        };
        /** @description A part of a message. Its type and state decide which fields are present. */
        UiPart: {
            /** @default null */
            approval: components["schemas"]["UiApproval"] | null;
            /**
             * @description The error.
             * @default null
             */
            errorText: string | null;
            /**
             * @description The name of a file.
             * @default null
             */
            filename: string | null;
            /** @description The input. */
            input?: unknown;
            /**
             * @description The media type of a file.
             * @default null
             */
            mediaType: string | null;
            /** @description The output. */
            output?: unknown;
            /**
             * @description Whether the call runs elsewhere and not on the page.
             * @default null
             */
            providerExecuted: boolean | null;
            /**
             * @description For a tool: `input-streaming`, `input-available`, `approval-requested`, `approval-responded`,
             *     `output-available`, `output-error`, `output-denied`; for a text: `streaming`, `done`.
             * @default null
             */
            state: string | null;
            /**
             * @description The text.
             * @default null
             */
            text: string | null;
            /**
             * @description The call.
             * @default null
             */
            toolCallId: string | null;
            /**
             * @description The tool of a `dynamic-tool`.
             * @default null
             */
            toolName: string | null;
            /**
             * @description `text`, `reasoning`, `file`, `step-start`, `tool-<name>`, `dynamic-tool`, …
             * @default
             */
            type: string;
            /**
             * @description The URL of a file.
             * @default null
             */
            url: string | null;
        };
        /** @description The answer to [`UnregisterRequest`]. */
        Unregistered: {
            /** @description Always true. */
            success: boolean;
            /** @description The full ids of the removed tools. */
            unregistered: string[];
        };
        /** @description `DELETE` or `POST /client-tools/unregister`. */
        UnregisterRequest: {
            /** @description The client that owns the tools. */
            clientID: string;
            /** @description Removes the tools from this session only. */
            sessionID?: string | null;
            /** @description Names or full ids; absent: all of the client's tools. */
            toolIDs?: string[] | null;
        };
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
export type Accepted = components['schemas']['Accepted'];
export type Ack = components['schemas']['Ack'];
export type Acknowledged = components['schemas']['Acknowledged'];
export type AguiTool = components['schemas']['AguiTool'];
export type Approvals = components['schemas']['Approvals'];
export type Asked = components['schemas']['Asked'];
export type Attachment = components['schemas']['Attachment'];
export type BoundUse = components['schemas']['BoundUse'];
export type CacheTokens = components['schemas']['CacheTokens'];
export type Call = components['schemas']['Call'];
export type CallRef = components['schemas']['CallRef'];
export type CallState = components['schemas']['CallState'];
export type CancelRequest = components['schemas']['CancelRequest'];
export type Chat = components['schemas']['Chat'];
export type ChatRequest = components['schemas']['ChatRequest'];
export type Claim = components['schemas']['Claim'];
export type Client = components['schemas']['Client'];
export type ClientToken = components['schemas']['ClientToken'];
export type ClientTokenRequest = components['schemas']['ClientTokenRequest'];
export type Context = components['schemas']['Context'];
export type CreateSession = components['schemas']['CreateSession'];
export type Detail = components['schemas']['Detail'];
export type DisconnectRequest = components['schemas']['DisconnectRequest'];
export type Done = components['schemas']['Done'];
export type Effect = components['schemas']['Effect'];
export type ErrorBody = components['schemas']['ErrorBody'];
export type ErrorCode = components['schemas']['ErrorCode'];
export type Event = components['schemas']['Event'];
export type ExecuteRequest = components['schemas']['ExecuteRequest'];
export type ExecutionMode = components['schemas']['ExecutionMode'];
export type Message = components['schemas']['Message'];
export type MessagePath = components['schemas']['MessagePath'];
export type MessageTime = components['schemas']['MessageTime'];
export type MessageWithParts = components['schemas']['MessageWithParts'];
export type Model = components['schemas']['Model'];
export type NewRun = components['schemas']['NewRun'];
export type NewThread = components['schemas']['NewThread'];
export type OfferedTool = components['schemas']['OfferedTool'];
export type Outcome = components['schemas']['Outcome'];
export type OutcomeSuccess = components['schemas']['OutcomeSuccess'];
export type PageTool = components['schemas']['PageTool'];
export type PageTools = components['schemas']['PageTools'];
export type Part = components['schemas']['Part'];
export type Permission = components['schemas']['Permission'];
export type PermissionMetadata = components['schemas']['PermissionMetadata'];
export type PermissionReply = components['schemas']['PermissionReply'];
export type PermissionResponse = components['schemas']['PermissionResponse'];
export type Phases = components['schemas']['Phases'];
export type Prompt = components['schemas']['Prompt'];
export type PromptPart = components['schemas']['PromptPart'];
export type ProviderKey = components['schemas']['ProviderKey'];
export type Registered = components['schemas']['Registered'];
export type RegisterRequest = components['schemas']['RegisterRequest'];
export type Reply = components['schemas']['Reply'];
export type ResultRequest = components['schemas']['ResultRequest'];
export type Resume = components['schemas']['Resume'];
export type ResumeStatus = components['schemas']['ResumeStatus'];
export type Room = components['schemas']['Room'];
export type Rule = components['schemas']['Rule'];
export type Run = components['schemas']['Run'];
export type RunAgentInputValue = components['schemas']['RunAgentInput_Value'];
export type RunMetadata = components['schemas']['RunMetadata'];
export type Runs = components['schemas']['Runs'];
export type RunUsage = components['schemas']['RunUsage'];
export type ServerCounts = components['schemas']['ServerCounts'];
export type ServerStatus = components['schemas']['ServerStatus'];
export type Session = components['schemas']['Session'];
export type SessionInfo = components['schemas']['SessionInfo'];
export type SessionTime = components['schemas']['SessionTime'];
export type Span = components['schemas']['Span'];
export type Status = components['schemas']['Status'];
export type StoreKind = components['schemas']['StoreKind'];
export type Success = components['schemas']['Success'];
export type Thread = components['schemas']['Thread'];
export type ThreadMetadata = components['schemas']['ThreadMetadata'];
export type Threads = components['schemas']['Threads'];
export type Tokens = components['schemas']['Tokens'];
export type Tool = components['schemas']['Tool'];
export type ToolRequest = components['schemas']['ToolRequest'];
export type ToolResult = components['schemas']['ToolResult'];
export type ToolResultSuccess = components['schemas']['ToolResultSuccess'];
export type ToolsChanged = components['schemas']['ToolsChanged'];
export type ToolState = components['schemas']['ToolState'];
export type TurnError = components['schemas']['TurnError'];
export type TurnErrorData = components['schemas']['TurnErrorData'];
export type UiApproval = components['schemas']['UiApproval'];
export type UiMessage = components['schemas']['UiMessage'];
export type UiPart = components['schemas']['UiPart'];
export type Unregistered = components['schemas']['Unregistered'];
export type UnregisterRequest = components['schemas']['UnregisterRequest'];
export type $defs = Record<string, never>;
export type operations = Record<string, never>;
