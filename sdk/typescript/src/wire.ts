// Generated from schemas/openapi.json by `npm run generate`.

export type paths = Record<string, never>;
export type webhooks = Record<string, never>;
export interface components {
    schemas: {
        /** @description The answer to an [`ExecuteRequest`] with `wait: false`. */
        Accepted: {
            /** @description The call's id; its outcome is at `GET /client-tools/calls/{requestID}`. */
            requestID: string;
        };
        /** @description What a frontend says of a call. */
        Ack: {
            /**
             * @description Who has claimed the call, where it was claimed.
             * @default null
             */
            claimant: string | null;
            /**
             * @description What went wrong.
             * @default null
             */
            errorText: string | null;
            /** @description What came of it, any JSON. */
            output?: unknown;
            /**
             * @description When the frontend began with it, RFC 3339.
             * @default null
             */
            requestedAt: string | null;
            /** @description `success`, `failed` or `timeout`. */
            status: string;
            /** @description The call. */
            toolCallId: string;
        };
        /** @description What is answered to an ack or a claim. */
        Acknowledged: {
            /** @description What is wrong with it, for people. */
            error?: string | null;
            /** @description The same was said before. */
            ignored?: boolean | null;
            /** @description Whether it counts. */
            ok: boolean;
            /** @description Why it does not count: `conflict`, `expired`, `unknown`, `claimed`, `awaiting-approval`, `invalid`. */
            reason?: string | null;
        };
        /** @description What an agent says that it can do. What it does not say is not known. */
        AgentCapabilities: {
            /**
             * @description Anything else.
             * @default null
             */
            custom: {
                [key: string]: unknown;
            } | null;
            /** @default null */
            execution: components["schemas"]["ExecutionCapabilities"] | null;
            /** @default null */
            humanInTheLoop: components["schemas"]["HumanInTheLoopCapabilities"] | null;
            /** @default null */
            identity: components["schemas"]["IdentityCapabilities"] | null;
            /** @default null */
            multiAgent: components["schemas"]["MultiAgentCapabilities"] | null;
            /** @default null */
            multimodal: components["schemas"]["MultimodalCapabilities"] | null;
            /** @default null */
            output: components["schemas"]["OutputCapabilities"] | null;
            /** @default null */
            reasoning: components["schemas"]["ReasoningCapabilities"] | null;
            /** @default null */
            state: components["schemas"]["StateCapabilities"] | null;
            /** @default null */
            tools: components["schemas"]["ToolsCapabilities"] | null;
            /** @default null */
            transport: components["schemas"]["TransportCapabilities"] | null;
        };
        /** @description A tool that the front end runs itself. */
        AguiTool: {
            /** @description What it does, for the model. */
            description?: string;
            /** @description Whatever else is to be said. */
            metadata?: {
                [key: string]: unknown;
            } | null;
            /** @description Its name. */
            name: string;
            /** @description What its arguments look like: a JSON Schema. */
            parameters?: {
                [key: string]: unknown;
            } | null;
        };
        /**
         * @description What becomes of the stream when a call has to be allowed.
         * @enum {string}
         */
        Approvals: "hold" | "yield";
        /** @description When something was asked, in milliseconds since 1970. */
        Asked: {
            /**
             * Format: int64
             * @description When.
             */
            created: number;
        };
        /** @description A file that belongs to an output. */
        Attachment: {
            /** @description Its name. */
            filename?: string | null;
            /** @description Its media type. */
            mime: string;
            /** @description Where it is; may be a data URL. */
            url: string;
        };
        /** @description Tokens of a provider's cache. */
        CacheTokens: {
            /**
             * Format: int64
             * @description Read from it.
             */
            read: number;
            /**
             * Format: int64
             * @description Put into it.
             */
            write: number;
        };
        /** @description A call, as `GET /client-tools/calls` lists it. */
        Call: {
            /**
             * Format: int32
             * @description Which time it is offered, from 1.
             */
            attempt: number;
            /** @description The caller's own id of the call, or "". */
            callID: string;
            /** @description The client that runs it. */
            clientID: string;
            /** @description When it was made, RFC 3339. */
            created: string;
            /** @description When it expires, RFC 3339; not said while it waits to be allowed, for its time begins then. */
            deadline?: string | null;
            /** @description What running the tool does. */
            effect: components["schemas"]["Effect"];
            executionMode?: components["schemas"]["ExecutionMode"] | null;
            /** @description The input; only where one call is asked for. */
            input?: {
                [key: string]: unknown;
            } | null;
            /** @description The message that the call belongs to, or "". */
            messageID: string;
            outcome?: components["schemas"]["Outcome"] | null;
            /** @description The call's id. */
            requestID: string;
            /** @description The session that the call belongs to, or "". */
            sessionID: string;
            /** @description Where it stands. */
            state: components["schemas"]["CallState"];
            /** @description How long it spent in each phase so far. */
            times: components["schemas"]["Phases"];
            /** @description The full id of the tool. */
            tool: string;
        };
        /** @description Which call an event is about. */
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
         * @description Where a call stands.
         * @enum {string}
         */
        CallState: "awaiting_approval" | "queued" | "offered" | "done";
        /** @description `POST /client-tools/cancel`. */
        CancelRequest: {
            /** @description Why; the client and the caller are told. */
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
        /** @description What a page sends: the whole conversation, the last message being what is new. */
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
             * @description The client's connection that it comes from: calls of the turn are offered there first. The header
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
            /** @description The conversation as the page knows it: `UiMessage`s. */
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
        /** @description A frontend claims a call, so that no other runs it. */
        Claim: {
            /** @description A name that is this frontend's own. */
            claimant: string;
            /**
             * @description Whether it is let go instead.
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
            /** @description Since when it is known, RFC 3339. */
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
            /** @description The one session that the token is good for; all of the client's when absent. */
            sessionID?: string | null;
            /**
             * Format: int64
             * @description How long the token is good for, in seconds.
             */
            ttl?: number | null;
        };
        /** @description Something that the model is to know. */
        Context: {
            /** @description What it is. */
            description: string;
            /** @description What it says. */
            value: string;
        };
        /** @description `POST /session`. */
        CreateSession: {
            /** @description The agent. */
            agent?: string | null;
            /** @description The client whose tools it has. `metadata.clientID` and the header `x-handback-client` do the same. */
            clientID?: string | null;
            /** @description Whatever is to be kept with it. */
            metadata?: {
                [key: string]: unknown;
            } | null;
            model?: components["schemas"]["Model"] | null;
            /** @description The session that it comes from. */
            parentID?: string | null;
            /** @description A heading; made from the first prompt when absent. */
            title?: string | null;
        };
        /** @description An error of this API. */
        Detail: {
            /** @description What went wrong, for people. */
            detail: string;
        };
        /** @description `POST /client-tools/disconnect`. */
        DisconnectRequest: {
            /** @description The client whose connection it is. */
            clientID: string;
            /** @description The connection's name, as it was given when it was opened. */
            connection: string;
        };
        /** @description The answer to a result or a cancel. */
        Done: {
            /** @description True when the same result had been taken before. */
            ignored?: boolean | null;
            /** @description Always true. */
            success: boolean;
        };
        /**
         * @description What running a tool does to the world, and so whether it may be run again.
         * @enum {string}
         */
        Effect: "read" | "idempotent" | "write";
        /** @description The body of every failure of the client-tools API. */
        ErrorBody: {
            /** @description What went wrong, for programs. */
            code: components["schemas"]["ErrorCode"];
            /** @description More about it, where there is more. */
            details?: {
                [key: string]: unknown;
            } | null;
            /** @description What went wrong, for people. */
            error: string;
        };
        /**
         * @description What kind of failure it was; one code, one HTTP status.
         * @enum {string}
         */
        ErrorCode: "INVALID_REQUEST" | "UNAUTHORIZED" | "FORBIDDEN" | "NOT_FOUND" | "METHOD_NOT_ALLOWED" | "CONFLICT" | "CANCELLED" | "GONE" | "TOO_LARGE" | "UPGRADE_REQUIRED" | "RATE_LIMITED" | "INTERNAL_ERROR" | "CLIENT_DISCONNECTED" | "UNAVAILABLE" | "TIMEOUT" | "INSUFFICIENT_STORAGE";
        /** @description One event. */
        Event: {
            /** @description The stream is open; always the first. */
            properties: {
                [key: string]: unknown;
            };
            /** @enum {string} */
            type: "server.connected";
        } | {
            /** @description A call was made. */
            properties: {
                /** @description The client that is to run it. */
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
            /** @description Tools are gone. */
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
                /** @description What happened. */
                error: string;
            };
            /** @enum {string} */
            type: "client-tool.failed";
        } | {
            /** @description A session was made. */
            properties: components["schemas"]["SessionInfo"];
            /** @enum {string} */
            type: "session.created";
        } | {
            /** @description Something about a session changed. */
            properties: components["schemas"]["SessionInfo"];
            /** @enum {string} */
            type: "session.updated";
        } | {
            /** @description A session is gone. */
            properties: components["schemas"]["SessionInfo"];
            /** @enum {string} */
            type: "session.deleted";
        } | {
            /** @description A turn begins, or all turns are over. */
            properties: {
                /** @description The session. */
                sessionID: string;
                /** @description What it does now. */
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
                /** @description Why. */
                error: components["schemas"]["TurnError"];
                /** @description The session. */
                sessionID: string;
            };
            /** @enum {string} */
            type: "session.error";
        } | {
            /** @description A message was made or changed. */
            properties: {
                /** @description The message. */
                info: components["schemas"]["Message"];
                /** @description The session. */
                sessionID: string;
            };
            /** @enum {string} */
            type: "message.updated";
        } | {
            /** @description A part was made or changed. */
            properties: {
                /** @description What was added to its text since the last event of this type. */
                delta?: string | null;
                /** @description The part as it is now. */
                part: components["schemas"]["Part"];
                /** @description The session. */
                sessionID: string;
            };
            /** @enum {string} */
            type: "message.part.updated";
        } | {
            /** @description A part is gone: its provider has begun the answer anew. */
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
            /** @description The text of a part has grown. `message.part.updated` tells the same, but not for every piece of a long text. */
            properties: {
                /** @description What was added. */
                delta: string;
                /** @description The field that has grown: `text`. */
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
            /** @description The same, for newer clients. */
            properties: components["schemas"]["Permission"];
            /** @enum {string} */
            type: "permission.asked";
        } | {
            /** @description An ask was answered, or its time is over. */
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
            /** @description The tool's input, an object that fits its schema; absent: `{}`. */
            input?: {
                [key: string]: unknown;
            } | null;
            /** @description The message that the call belongs to. */
            messageID?: string | null;
            /** @description A name for the call; made by the server when absent. */
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
            /** @description False: answer 202 at once and let the caller fetch the outcome. */
            wait?: boolean | null;
        };
        /** @description What bounds an agent has. */
        ExecutionCapabilities: {
            /**
             * @description It runs code.
             * @default null
             */
            codeExecution: boolean | null;
            /**
             * Format: int64
             * @description Milliseconds of a run.
             * @default null
             */
            maxExecutionTime: number | null;
            /**
             * Format: int64
             * @description Steps of a run.
             * @default null
             */
            maxIterations: number | null;
            /**
             * @description In a sandbox.
             * @default null
             */
            sandboxed: boolean | null;
        };
        /**
         * @description Who runs a call, where it is not a client.
         * @enum {string}
         */
        ExecutionMode: "frontend";
        /** @description What an agent asks people. */
        HumanInTheLoopCapabilities: {
            /**
             * @description Whether a call may be made.
             * @default null
             */
            approvals: boolean | null;
            /**
             * @description A call may be allowed with other arguments.
             * @default null
             */
            approveWithEdits: boolean | null;
            /**
             * @description How it did.
             * @default null
             */
            feedback: boolean | null;
            /**
             * @description By interrupts of a run.
             * @default null
             */
            interrupts: boolean | null;
            /**
             * @description What to do instead.
             * @default null
             */
            interventions: boolean | null;
            /**
             * @description It asks.
             * @default null
             */
            supported: boolean | null;
        };
        /** @description Who an agent is. */
        IdentityCapabilities: {
            /**
             * @description What it is for.
             * @default null
             */
            description: string | null;
            /**
             * @description Where to read more.
             * @default null
             */
            documentationUrl: string | null;
            /**
             * @description Anything else.
             * @default null
             */
            metadata: {
                [key: string]: unknown;
            } | null;
            /**
             * @description Its name.
             * @default null
             */
            name: string | null;
            /**
             * @description Who runs it.
             * @default null
             */
            provider: string | null;
            /**
             * @description What it is made with.
             * @default null
             */
            type: string | null;
            /**
             * @description Its version.
             * @default null
             */
            version: string | null;
        };
        /** @description A message. */
        Message: {
            /** @description The agent. */
            agent: string;
            /**
             * Format: double
             * @description Always 0: prices are not known here.
             */
            cost?: number | null;
            error?: components["schemas"]["TurnError"] | null;
            /** @description Why the model stopped. */
            finish?: string | null;
            /** @description Its id. */
            id: string;
            /** @description The agent, by its older name. */
            mode?: string | null;
            model?: components["schemas"]["Model"] | null;
            /** @description The model that answers. */
            modelID?: string | null;
            /** @description The user's message that it answers; of an assistant's message, as are all that follow. */
            parentID?: string | null;
            path?: components["schemas"]["MessagePath"] | null;
            /** @description Its provider. */
            providerID?: string | null;
            /** @description `user` or `assistant`. */
            role: string;
            /** @description The session that it belongs to. */
            sessionID: string;
            /** @description Instructions in place of the agent's; of a user's message. */
            system?: string | null;
            /** @description When it was made and complete. */
            time: components["schemas"]["MessageTime"];
            tokens?: components["schemas"]["Tokens"] | null;
            /** @description Tools switched on or off; of a user's message. */
            tools?: {
                [key: string]: boolean;
            } | null;
        };
        /** @description Where an assistant works; nothing is known of that here. */
        MessagePath: {
            /** @description Always empty. */
            cwd: string;
            /** @description Always empty. */
            root: string;
        };
        /** @description When a message was made and complete, in milliseconds since 1970. */
        MessageTime: {
            /**
             * Format: int64
             * @description When it was complete.
             */
            completed?: number | null;
            /**
             * Format: int64
             * @description When it was made.
             */
            created: number;
        };
        /** @description A message and its parts. */
        MessageWithParts: {
            /** @description The message. */
            info: components["schemas"]["Message"];
            /** @description What it is made of. */
            parts: components["schemas"]["Part"][];
        };
        /** @description A model, in either of the two ways that it is written. */
        Model: {
            /** @description The same. */
            id?: string | null;
            /** @description The model's name there. */
            modelID?: string | null;
            /** @description The provider. */
            providerID: string;
        };
        /** @description Whom an agent works with. */
        MultiAgentCapabilities: {
            /**
             * @description It hands work to them.
             * @default null
             */
            delegation: boolean | null;
            /**
             * @description It hands the conversation to them.
             * @default null
             */
            handoffs: boolean | null;
            /**
             * @description They.
             * @default null
             */
            subagents: components["schemas"]["SubagentInfo"][] | null;
            /**
             * @description It works with others.
             * @default null
             */
            supported: boolean | null;
        };
        /** @description What an agent takes and gives besides text. */
        MultimodalCapabilities: {
            /** @default null */
            input: components["schemas"]["MultimodalInputCapabilities"] | null;
            /** @default null */
            output: components["schemas"]["MultimodalOutputCapabilities"] | null;
        };
        /** @description What an agent takes. */
        MultimodalInputCapabilities: {
            /**
             * @description Sound.
             * @default null
             */
            audio: boolean | null;
            /**
             * @description Any file.
             * @default null
             */
            file: boolean | null;
            /**
             * @description Images.
             * @default null
             */
            image: boolean | null;
            /**
             * @description PDF.
             * @default null
             */
            pdf: boolean | null;
            /**
             * @description Films.
             * @default null
             */
            video: boolean | null;
        };
        /** @description What an agent gives. */
        MultimodalOutputCapabilities: {
            /**
             * @description Sound.
             * @default null
             */
            audio: boolean | null;
            /**
             * @description Images.
             * @default null
             */
            image: boolean | null;
        };
        /** @description A run to be made. */
        NewRun: {
            /** @default null */
            metadata: components["schemas"]["RunMetadata"] | null;
            /**
             * @description The run that it goes on from.
             * @default null
             */
            parent_run_id: string | null;
        };
        /** @description A thread to be made. */
        NewThread: {
            /** @default null */
            metadata: components["schemas"]["ThreadMetadata"] | null;
        };
        /** @description A tool that the model is offered: `GET /session/{id}/tools`. */
        OfferedTool: {
            /** @description The client that runs it. */
            clientID?: string | null;
            /** @description What it does. */
            description: string;
            /** @description The tool's full id. */
            id: string;
            /** @description The name that the model knows it by. */
            name: string;
            /** @description JSON Schema of the input. */
            parameters: {
                [key: string]: unknown;
            };
            /** @description Whether a call is made at once, asked for first, or refused. */
            permission: components["schemas"]["Rule"];
            /** @description Where it runs: `client` or `server`. */
            runs: components["schemas"]["Runs"];
        };
        /** @description How a call ended. */
        Outcome: components["schemas"]["OutcomeSuccess"] | {
            /** @description Why. */
            error: string;
            /** @enum {string} */
            status: "error";
        } | {
            /** @description What happened. */
            error: string;
            /** @enum {string} */
            status: "timeout";
        } | {
            /** @description What happened. */
            error: string;
            /** @enum {string} */
            status: "cancelled";
        } | {
            /** @description What happened. */
            error: string;
            /** @enum {string} */
            status: "denied";
        } | {
            /** @description What happened. */
            error: string;
            /** @enum {string} */
            status: "disconnected";
        };
        /** @description The tool ran. */
        OutcomeSuccess: components["schemas"]["Success"] & {
            /** @enum {string} */
            status: "success";
        };
        /** @description What an agent writes. */
        OutputCapabilities: {
            /**
             * @description JSON of a given schema.
             * @default null
             */
            structuredOutput: boolean | null;
            /**
             * @description Media types.
             * @default null
             */
            supportedMimeTypes: string[] | null;
        };
        /** @description A tool that the page brings along and runs itself. */
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
            /** @description What its input looks like: a JSON Schema. */
            parameters?: {
                [key: string]: unknown;
            } | null;
        };
        /** @description The tools of a page, for the description of the API. */
        PageTools: components["schemas"]["PageTool"][] | {
            [key: string]: components["schemas"]["PageTool"];
        };
        /** @description A part of a message. */
        Part: {
            /** @description Of `tool`: the call. */
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
            /** @description Of `text` and `reasoning`. */
            text?: string | null;
            time?: components["schemas"]["Span"] | null;
            tokens?: components["schemas"]["Tokens"] | null;
            /** @description Of `tool`: the tool's full id. */
            tool?: string | null;
            /** @description `text`, `reasoning`, `file`, `tool`, `step-start` or `step-finish`. */
            type: string;
            /** @description Of `file`: where it is. */
            url?: string | null;
        };
        /**
         * @description A call waits until somebody allows it: `permission.updated`, `permission.asked`, `GET /permission`. It has the fields
         *     of both generations of the SDK.
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
            /** @description The input that the model wants. */
            input: {
                [key: string]: unknown;
            };
            /** @description The message. */
            messageID: string;
            /** @description The tool and the input once more, where older clients look for them. */
            metadata: components["schemas"]["PermissionMetadata"];
            /** @description The tool's full id. */
            pattern: string;
            /** @description The tool's full id. */
            patterns: string[];
            /** @description Always `client_tool`. */
            permission: string;
            /** @description The session. */
            sessionID: string;
            /** @description When it was asked. */
            time: components["schemas"]["Asked"];
            /** @description A question for people. */
            title: string;
            /** @description The tool's full id. */
            tool: string;
            /** @description Always `client_tool`. */
            type: string;
        };
        /** @description What a permission is about, where older clients look for it. */
        PermissionMetadata: {
            /** @description The input that the model wants. */
            input: {
                [key: string]: unknown;
            };
            /** @description The tool's full id. */
            tool: string;
        };
        /** @description `POST /permission/{id}/reply`. */
        PermissionReply: {
            /** @description The input to use in place of the model's. */
            input?: {
                [key: string]: unknown;
            } | null;
            /** @description Why it is rejected, for the model. */
            message?: string | null;
            /** @description The answer. */
            reply: components["schemas"]["Reply"];
        };
        /** @description `POST /session/{id}/permissions/{permissionID}`. */
        PermissionResponse: {
            /** @description The input to use in place of the model's. */
            input?: {
                [key: string]: unknown;
            } | null;
            /** @description Why it is rejected, for the model. */
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
            /** @description The agent, for this turn. */
            agent?: string | null;
            /** @description The client that says it. The header `x-handback-client` does the same. */
            clientID?: string | null;
            /**
             * @description The client's connection that it comes from: calls of the turn are offered there first. The header
             *     `x-handback-connection` does the same.
             */
            connection?: string | null;
            /** @description The id of the user's message; made when absent. */
            messageID?: string | null;
            model?: components["schemas"]["Model"] | null;
            /** @description Keep the message without answering it. */
            noReply?: boolean | null;
            /** @description What is said. */
            parts: components["schemas"]["PromptPart"][];
            /** @description Instructions in place of the agent's. */
            system?: string | null;
            /** @description Tools switched on or off for this turn, by name, full id or pattern. */
            tools?: {
                [key: string]: boolean;
            } | null;
        };
        /** @description A part of what is said. */
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
            /** @description Where it is; may be a data URL. */
            url: string;
        };
        /** @description Whether an agent shows what it thinks. */
        ReasoningCapabilities: {
            /**
             * @description For the provider only.
             * @default null
             */
            encrypted: boolean | null;
            /**
             * @description As it thinks.
             * @default null
             */
            streaming: boolean | null;
            /**
             * @description It does.
             * @default null
             */
            supported: boolean | null;
        };
        /** @description The answer to [`RegisterRequest`]. */
        Registered: {
            /** @description The full ids of the tools. */
            registered: string[];
        };
        /** @description `POST /client-tools/register`. */
        RegisterRequest: {
            /** @description The client that runs the tools. */
            clientID: string;
            /** @description Offer the tools in this session only. */
            sessionID?: string | null;
            /** @description The tools; all of them are registered, or none. */
            tools: components["schemas"]["Tool"][];
        };
        /**
         * @description An answer to an ask.
         * @enum {string}
         */
        Reply: "once" | "always" | "reject";
        /** @description `POST /client-tools/result`, as it is written. Reading also takes the fields of the result beside `requestID`. */
        ResultRequest: {
            /** @description The call that is answered. */
            requestID: string;
            /** @description The result. */
            result: components["schemas"]["ToolResult"];
        };
        /** @description An answer to an interrupt. */
        Resume: {
            /** @description The interrupt. */
            interruptId: string;
            /** @description Whatever else is to be said. */
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
            /** @description What one could say. */
            suggestions?: string[];
            /** @description What it greets with. */
            welcome_message?: string;
        };
        /**
         * @description Whether a call is made at once, asked for first, or refused.
         * @enum {string}
         */
        Rule: "allow" | "ask" | "deny";
        /** @description A run. */
        Run: {
            /** @description When it was made (RFC 3339). */
            created: string;
            /** @description Its events so far: [`Event`](crate::agui::Event)s. Null where runs are listed. */
            events?: {
                [key: string]: unknown;
            }[] | null;
            /** @description When it was over (RFC 3339). */
            finished?: string | null;
            metadata?: components["schemas"]["RunMetadata"] | null;
            /** @description The run that it goes on from. */
            parent_run_id?: string | null;
            /** @description Its id. */
            run_id: string;
            /** @description What it was started with: a [`RunAgentInput`](crate::agui::RunAgentInput). Null where runs are listed. */
            run_input?: {
                [key: string]: unknown;
            } | null;
            /** @description Its thread. */
            thread_id: string;
            usage?: components["schemas"]["RunUsage"] | null;
        };
        /**
         * @description What a run is started with: the whole conversation, and what the front end brings along.
         *
         *     Most of the messages are known already: whoever wants to read them one by one takes them as raw JSON. Names in
         *     `snake_case` are taken too, as the protocol's Python types write and read them, and null for an empty list, as Go does.
         */
        RunAgentInput_Value: {
            /** @description What the model is to know besides the conversation. */
            context?: components["schemas"]["Context"][];
            /** @description Whatever else the application passes on, any JSON. */
            forwardedProps?: unknown;
            /** @description The conversation as the front end knows it. */
            messages: {
                [key: string]: unknown;
            }[];
            /** @description The run that this one goes on from. */
            parentRunId?: string | null;
            /** @description The version of the protocol that the front end speaks; absent before 1.0. */
            protocolVersion?: string | null;
            /** @description Answers to the interrupts that the last run ended with. */
            resume?: components["schemas"]["Resume"][] | null;
            /** @description This run of it. */
            runId: string;
            /** @description The application's state, any JSON. */
            state?: unknown;
            /** @description The conversation. */
            threadId: string;
            /** @description Tools that the front end runs itself. */
            tools?: components["schemas"]["AguiTool"][];
        };
        /** @description What a run is called. */
        RunMetadata: {
            /**
             * @description Its name.
             * @default null
             */
            label: string | null;
        };
        /**
         * @description Where a tool runs.
         * @enum {string}
         */
        Runs: "client" | "frontend" | "server";
        /** @description What a run cost. */
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
             * @description Calls of tools.
             */
            tool_calls: number;
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
            /** @description What is kept with it. */
            metadata?: {
                [key: string]: unknown;
            } | null;
            model?: components["schemas"]["Model"] | null;
            /** @description The session that it comes from. */
            parentID?: string | null;
            /** @description Always `global`. */
            projectID: string;
            /** @description The same: it has no other name. */
            slug: string;
            /** @description When it was made and last used. */
            time: components["schemas"]["SessionTime"];
            /** @description A heading. */
            title: string;
            /** @description The version of the server. */
            version: string;
        };
        /** @description A session that came, changed or went. */
        SessionInfo: {
            /** @description All about it. */
            info: components["schemas"]["Session"];
            /** @description The session. */
            sessionID: string;
        };
        /** @description When a session was made and last used, in milliseconds since 1970. */
        SessionTime: {
            /**
             * Format: int64
             * @description When it was made.
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
        /** @description What an agent does with state. */
        StateCapabilities: {
            /**
             * @description It sends changes.
             * @default null
             */
            deltas: boolean | null;
            /**
             * @description It remembers across threads.
             * @default null
             */
            memory: boolean | null;
            /**
             * @description It keeps it between runs.
             * @default null
             */
            persistentState: boolean | null;
            /**
             * @description It sends all of it.
             * @default null
             */
            snapshots: boolean | null;
        };
        /** @description Whether a turn is under way. */
        Status: {
            /** @enum {string} */
            type: "idle";
        } | {
            /** @enum {string} */
            type: "busy";
        };
        /** @description A subagent. */
        SubagentInfo: {
            /** @description What it is for. */
            description?: string | null;
            /** @description Its name. */
            name: string;
        };
        /** @description The fields of a successful result. */
        Success: {
            /** @description Files that belong to the output. */
            attachments?: components["schemas"]["Attachment"][] | null;
            /** @description Whatever else the client wants to pass on, an object. */
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
            /** @description When it was made (RFC 3339). */
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
        /** @description What a thread is called. */
        ThreadMetadata: {
            /**
             * @description What it is about.
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
            /** @description They, the one used last first. */
            threads: components["schemas"]["Thread"][];
        };
        /** @description Tokens that were used. */
        Tokens: {
            /** @description Read from and put into the provider's cache. */
            cache: components["schemas"]["CacheTokens"];
            /**
             * Format: int64
             * @description Read, but not from a cache.
             */
            input: number;
            /**
             * Format: int64
             * @description Written, but not while thinking.
             */
            output: number;
            /**
             * Format: int64
             * @description Written while thinking.
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
            /** @description A version to show and pass on. */
            version?: string | null;
        };
        /** @description A call, as a client gets it. */
        ToolRequest: {
            /**
             * Format: int32
             * @description Which time this call is offered, from 1.
             */
            attempt?: number;
            /** @description The caller's own id of the call, or "". */
            callID: string;
            /** @description When the call expires, RFC 3339. */
            deadline?: string;
            /** @description What running the tool does. */
            effect?: components["schemas"]["Effect"];
            executionMode?: components["schemas"]["ExecutionMode"] | null;
            /** @description The input; it fits the tool's schema. */
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
        /** @description What a client sends back for a call, and what the caller gets. */
        ToolResult: components["schemas"]["ToolResultSuccess"] | {
            /** @description Why. */
            error: string;
            /** @enum {string} */
            status: "error";
        };
        /** @description The tool ran. */
        ToolResultSuccess: components["schemas"]["Success"] & {
            /** @enum {string} */
            status: "success";
        };
        /** @description Which tools an agent has. */
        ToolsCapabilities: {
            /**
             * @description Those of the front end.
             * @default null
             */
            clientProvided: boolean | null;
            /**
             * @description Its own.
             * @default null
             */
            items: components["schemas"]["AguiTool"][] | null;
            /**
             * @description Several at once.
             * @default null
             */
            parallelCalls: boolean | null;
            /**
             * @description It calls tools.
             * @default null
             */
            supported: boolean | null;
        };
        /** @description Tools of one client that came or went. */
        ToolsChanged: {
            /** @description The client. */
            clientID: string;
            /** @description The full ids of the tools. */
            toolIDs: string[];
        };
        /** @description Where a tool call stands. */
        ToolState: {
            /** @description Of `completed`: files, as parts of type `file`. */
            attachments?: components["schemas"]["Part"][] | null;
            /** @description Of `error`: what happened. */
            error?: string | null;
            /** @description The input, an object. */
            input?: {
                [key: string]: unknown;
            } | null;
            /** @description Of `completed`: whatever else the tool passed on. */
            metadata?: {
                [key: string]: unknown;
            } | null;
            /** @description Of `completed`: what the tool gave. */
            output?: string | null;
            /** @description Of `pending`: the arguments as far as the model has written them. */
            raw?: string | null;
            /** @description `pending`, `running`, `completed` or `error`. */
            status: string;
            time?: components["schemas"]["Span"] | null;
            /** @description Of `completed`: a short heading. */
            title?: string | null;
        };
        /** @description How an agent is reached. */
        TransportCapabilities: {
            /**
             * @description By protobuf over HTTP.
             * @default null
             */
            httpBinary: boolean | null;
            /**
             * @description By notifications.
             * @default null
             */
            pushNotifications: boolean | null;
            /**
             * @description A stream that was lost can be taken up again.
             * @default null
             */
            resumable: boolean | null;
            /**
             * @description By a stream of events.
             * @default null
             */
            streaming: boolean | null;
            /**
             * @description By WebSocket.
             * @default null
             */
            websocket: boolean | null;
        };
        /** @description Why a turn ended early; also the body of every error of this API. */
        TurnError: {
            /** @description More about it. */
            data: components["schemas"]["TurnErrorData"];
            /**
             * @description What kind of error it is: `MessageAbortedError`, `ProviderAuthError`, `APIError`, `UnknownError`; of requests
             *     `BadRequest`, `NotFoundError`, `ConflictError` and others.
             */
            name: string;
        };
        /** @description More about an error. */
        TurnErrorData: {
            /** @description Whether another try may help. */
            isRetryable?: boolean | null;
            /** @description What happened, for people. */
            message?: string;
            /** @description The provider that refuses the key. */
            providerID?: string | null;
            /** @description Why a prompt is refused with 409: `queue`, too many wait; `taken`, there is a message of its id. */
            reason?: string | null;
            /**
             * Format: int32
             * @description The status that a provider answered with.
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
             * @description The question.
             * @default
             */
            id: string;
            /**
             * @description Why not.
             * @default null
             */
            reason: string | null;
        };
        /** @description A message as pages have it: an assistant's has all steps of a turn. */
        UiMessage: {
            /**
             * @description Its id.
             * @default
             */
            id: string;
            /**
             * @description What it is made of.
             * @default []
             */
            parts: components["schemas"]["UiPart"][];
            /**
             * @description `user`, `assistant` or `system`.
             * @default
             */
            role: string;
        };
        /** @description A part of a message; which fields there are depends on its type and state. */
        UiPart: {
            /** @default null */
            approval: components["schemas"]["UiApproval"] | null;
            /**
             * @description What went wrong.
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
             * @description Whether somebody else than the page runs the call.
             * @default null
             */
            providerExecuted: boolean | null;
            /**
             * @description Of a tool: `input-streaming`, `input-available`, `approval-requested`, `approval-responded`,
             *     `output-available`, `output-error`, `output-denied`; of a text: `streaming`, `done`.
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
             * @description The tool, of a `dynamic-tool`.
             * @default null
             */
            toolName: string | null;
            /**
             * @description `text`, `reasoning`, `file`, `step-start`, `tool-<name>`, `dynamic-tool`, …
             * @default
             */
            type: string;
            /**
             * @description Where a file is.
             * @default null
             */
            url: string | null;
        };
        /** @description The answer to [`UnregisterRequest`]. */
        Unregistered: {
            /** @description Always true. */
            success: boolean;
            /** @description The full ids of the tools that are gone. */
            unregistered: string[];
        };
        /** @description `DELETE` or `POST /client-tools/unregister`. */
        UnregisterRequest: {
            /** @description The client whose tools they are. */
            clientID: string;
            /** @description Take the tools out of this session only. */
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
export type AgentCapabilities = components['schemas']['AgentCapabilities'];
export type AguiTool = components['schemas']['AguiTool'];
export type Approvals = components['schemas']['Approvals'];
export type Asked = components['schemas']['Asked'];
export type Attachment = components['schemas']['Attachment'];
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
export type ExecutionCapabilities = components['schemas']['ExecutionCapabilities'];
export type ExecutionMode = components['schemas']['ExecutionMode'];
export type HumanInTheLoopCapabilities = components['schemas']['HumanInTheLoopCapabilities'];
export type IdentityCapabilities = components['schemas']['IdentityCapabilities'];
export type Message = components['schemas']['Message'];
export type MessagePath = components['schemas']['MessagePath'];
export type MessageTime = components['schemas']['MessageTime'];
export type MessageWithParts = components['schemas']['MessageWithParts'];
export type Model = components['schemas']['Model'];
export type MultiAgentCapabilities = components['schemas']['MultiAgentCapabilities'];
export type MultimodalCapabilities = components['schemas']['MultimodalCapabilities'];
export type MultimodalInputCapabilities = components['schemas']['MultimodalInputCapabilities'];
export type MultimodalOutputCapabilities = components['schemas']['MultimodalOutputCapabilities'];
export type NewRun = components['schemas']['NewRun'];
export type NewThread = components['schemas']['NewThread'];
export type OfferedTool = components['schemas']['OfferedTool'];
export type Outcome = components['schemas']['Outcome'];
export type OutcomeSuccess = components['schemas']['OutcomeSuccess'];
export type OutputCapabilities = components['schemas']['OutputCapabilities'];
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
export type ReasoningCapabilities = components['schemas']['ReasoningCapabilities'];
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
export type Session = components['schemas']['Session'];
export type SessionInfo = components['schemas']['SessionInfo'];
export type SessionTime = components['schemas']['SessionTime'];
export type Span = components['schemas']['Span'];
export type StateCapabilities = components['schemas']['StateCapabilities'];
export type Status = components['schemas']['Status'];
export type SubagentInfo = components['schemas']['SubagentInfo'];
export type Success = components['schemas']['Success'];
export type Thread = components['schemas']['Thread'];
export type ThreadMetadata = components['schemas']['ThreadMetadata'];
export type Threads = components['schemas']['Threads'];
export type Tokens = components['schemas']['Tokens'];
export type Tool = components['schemas']['Tool'];
export type ToolRequest = components['schemas']['ToolRequest'];
export type ToolResult = components['schemas']['ToolResult'];
export type ToolResultSuccess = components['schemas']['ToolResultSuccess'];
export type ToolsCapabilities = components['schemas']['ToolsCapabilities'];
export type ToolsChanged = components['schemas']['ToolsChanged'];
export type ToolState = components['schemas']['ToolState'];
export type TransportCapabilities = components['schemas']['TransportCapabilities'];
export type TurnError = components['schemas']['TurnError'];
export type TurnErrorData = components['schemas']['TurnErrorData'];
export type UiApproval = components['schemas']['UiApproval'];
export type UiMessage = components['schemas']['UiMessage'];
export type UiPart = components['schemas']['UiPart'];
export type Unregistered = components['schemas']['Unregistered'];
export type UnregisterRequest = components['schemas']['UnregisterRequest'];
export type $defs = Record<string, never>;
export type operations = Record<string, never>;
