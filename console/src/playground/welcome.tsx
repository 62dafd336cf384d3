import { Button } from "../components/button";
import { CopyLine } from "../components/copy";
import { baseUrl } from "../api";
import { SUGGESTIONS, TOOLS } from "./offer";

/** What this is, for whoever sees it for the first time. */
export function Welcome({ onSay }: { onSay: (text: string) => void }) {
  return (
    <div class="welcome">
      <h1>Let a model use this browser</h1>
      <p class="lead">
        Handback is a server for AI tools that run where the user is. This page is such a place: it offers tools of the browser,
        the model asks the server for one, and the call is handed back to this tab. Say something, and watch it happen. The model
        that is built in needs no key: it picks a tool by your words.
      </p>
      <section aria-labelledby="try-it">
        <h2 id="try-it">Try one of these</h2>
        <ul class="suggestions">
          {SUGGESTIONS.map(({ text, shows }) => (
            <li key={shows}>
              <Button class="suggestion" onClick={() => onSay(text)}>
                {text}
              </Button>
            </li>
          ))}
        </ul>
      </section>
      <OfferedTools />
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

/** What the page offers to the model. */
function OfferedTools() {
  return (
    <section aria-labelledby="offered">
      <h2 id="offered">What this page offers to the model</h2>
      <dl class="offered">
        {Object.entries(TOOLS).map(([name, { title, purpose }]) => (
          <div key={name}>
            <dt>{title}</dt>
            <dd>{purpose}</dd>
          </div>
        ))}
        <div>
          <dt>Open a page</dt>
          <dd>a web address, in a new tab</dd>
        </div>
      </dl>
    </section>
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
console.log((await session.prompt("What time is it here?")).text);`;
}
