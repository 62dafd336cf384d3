import { useEffect, useRef, useState } from "preact/hooks";

import { isKeyChanging } from "./api";
import { Charts } from "./charts/charts";
import { Announcer, announce } from "./components/announcer";
import { Button } from "./components/button";
import { connection, reconnect } from "./events";
import { KeyDialog } from "./key-dialog";
import { Live } from "./live/live";
import { Playground } from "./playground";
import { page, PAGES } from "./router";
import { theme, THEMES } from "./theme";

const VIEWS = { Playground, Live, Charts };

export function App() {
  const View = VIEWS[page.value.name];
  const main = useRef<HTMLElement>(null);
  const shown = useRef(page.value);
  useEffect(() => {
    document.title = `${page.value.name} · Handback`;
    // After a change of page, those who read it begin at its top.
    if (shown.current !== page.value) {
      main.current?.focus({ preventScroll: true });
      // A conversation is read from its end, and goes there by itself.
      if (page.value.name !== "Playground") window.scrollTo(0, 0);
    }
    shown.current = page.value;
  }, [page.value]);
  const skip = (event: Event) => {
    // The hash is the page's address.
    event.preventDefault();
    main.current?.focus();
  };
  return (
    <>
      <a class="skip" href="#main" onClick={skip}>
        Skip to the content
      </a>
      <Header />
      <Trouble />
      <main ref={main} id="main" tabIndex={-1}>
        <View />
      </main>
      <KeyDialog />
      <Announcer />
    </>
  );
}

function Header() {
  const nextTheme = THEMES[(THEMES.indexOf(theme.value) + 1) % THEMES.length] ?? "system";
  return (
    <header class="top">
      <a class="brand" href="#/">
        <Mark />
        Handback
      </a>
      <nav aria-label="Pages">
        {PAGES.map((known) => (
          <a key={known.path} href={known.path} aria-current={known === page.value ? "page" : undefined}>
            {known.name}
          </a>
        ))}
      </nav>
      <ConnectionState />
      <Button kind="quiet" onClick={() => (isKeyChanging.value = true)} title="Change the key">
        Key
      </Button>
      <Button kind="quiet" class="theme" onClick={() => (theme.value = nextTheme)} title={`Change to ${nextTheme}`}>
        <span class="hidden">Theme: </span>
        {theme.value}
      </Button>
    </header>
  );
}

const SAID = { connecting: "Connecting", open: "Connected", lost: "Reconnecting", failed: "Not connected" };

/** How long a connection may take before that is shown, in ms: another page may need another stream. */
const CONNECTING = 500;

function ConnectionState() {
  const now = connection.value.state;
  const [state, setState] = useState(now);
  useEffect(() => {
    if (now !== "connecting") return setState(now);
    const timer = setTimeout(() => setState(now), CONNECTING);
    return () => clearTimeout(timer);
  }, [now]);
  useEffect(() => announce(SAID[state]), [state]);
  return (
    <span class={`connection ${state}`}>
      <span class="dot" aria-hidden="true" />
      {SAID[state]}
    </span>
  );
}

/** Says that what is shown may be old. */
function Trouble() {
  const now = connection.value;
  if (now.state !== "lost" && now.state !== "failed") return null;
  const hint = now.state === "lost" ? "What you see may be old; it is read again as soon as the server is back." : "";
  return (
    <div class="trouble" role="alert">
      <p>
        <strong>{now.state === "lost" ? "The connection to the server is lost." : "There is no connection to the server."}</strong>{" "}
        {hint} <span class="note">{now.reason}</span>
      </p>
      <Button onClick={reconnect}>Try now</Button>
    </div>
  );
}

function Mark() {
  return (
    <svg viewBox="0 0 32 32" width="24" height="24" aria-hidden="true">
      <rect class="mark" width="32" height="32" rx="8" />
      <path class="mark-lines" d="M9 7v18M23 7v18M9 16h10m-4-4 4 4-4 4" />
    </svg>
  );
}
