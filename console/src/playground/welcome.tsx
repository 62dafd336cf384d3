import { useLayoutEffect } from "preact/hooks";

import { baseUrl } from "../api";
import { Button } from "../components/button";
import { CopyLine } from "../components/copy";
import { aboutTool, SUGGESTIONS } from "./offer";

/** What this is, for whoever sees it for the first time. */
export function Welcome({ onSay }: { onSay: (text: string) => void }) {
  useLayoutEffect(() => window.scrollTo(0, 0), []);
  return (
    <div class="welcome">
      <h1>Let a model use this browser</h1>
      <p class="lead">
        Handback lets an AI model use tools that run where the user is: in a tab, an editor, a laptop behind a firewall. This tab is
        such a place. Say something: the model picks a tool, the server hands the call to this tab, and the tab hands back what came
        of it. The built-in model needs no key and does not think: it picks the tool whose name and description match your words.
      </p>
      <section aria-labelledby="try-it">
        <h2 id="try-it">Try the tools that this page offers</h2>
        <ul class="suggestions">
          {SUGGESTIONS.map(({ text, shows }) => (
            <li key={shows}>
              <Button class="suggestion" onClick={() => onSay(text)} aria-describedby={`shows-${shows}`}>
                {text}
              </Button>
              <p class="note" id={`shows-${shows}`}>
                <strong>{aboutTool(shows).title}</strong>: {aboutTool(shows).purpose}
              </p>
            </li>
          ))}
        </ul>
      </section>
      <section aria-labelledby="go-on">
        <h2 id="go-on">Where to go next</h2>
        <p>
          Every call is in <a href="#/live">Live</a> as it moves, with its times, and is counted in <a href="#/charts">Charts</a>. A
          page or program of your own offers a tool in ten lines of TypeScript:
        </p>
        <CopyLine line={example()} label="A tool of your own, in TypeScript" />
      </section>
    </div>
  );
}

function example(): string {
  return `import { createHandbackClient } from "@handback/client";

const client = createHandbackClient({ baseUrl: "${baseUrl.replace(/\/$/, "")}" });
await client.clientTools.register(
  "local_time",
  { description: "Tells the time where the user is" },
  () => new Date().toString(),
);
const session = await client.startSession();
console.log((await session.prompt("What time is it here?")).text);
await session.close();`;
}
