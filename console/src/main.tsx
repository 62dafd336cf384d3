import "./style.css";

import { render } from "preact";

import { App } from "./app";
import { start } from "./events";
import { follow } from "./world/world";

follow();
start();

const place = document.getElementById("app");
if (place) render(<App />, place);
