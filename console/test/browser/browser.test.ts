// Tests that need a browser, in one process, so that there is one browser.

import "./live.js";
import "./try.js";
import "./connection.js";
import "./hostile.js";
import "./keyboard.js";
import "./charts.js";
import "./older.js";
import "./looks.js";
