import { baseUrl, key } from "../api";
import { CopyLine } from "../components/copy";

/** How a call is made, where there is none yet: it waits for its client to connect. */
export function FirstCall() {
  const auth = key.value === undefined ? "" : '-H "Authorization: Bearer $HANDBACK_KEY" ';
  const post = (path: string, body: unknown) => `curl ${auth}${baseUrl}client-tools/${path} -d '${JSON.stringify(body)}'`;
  const register = post("register", { clientID: "me", tools: [{ id: "hello" }] });
  return (
    <>
      <p>To see one, register a tool and call it; the call waits for its client to connect, and ends as a timeout if none does within 30 s:</p>
      <CopyLine line={`${register} && ${post("execute", { toolID: "client_me_hello" })}`} label="How to make a call" />
    </>
  );
}
