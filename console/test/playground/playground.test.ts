// All tests of the playground that need a browser, in one process, so that there is one browser.

import "./talk.js";
import "./open.js";
import "./allow.js";
import "./hostile.js";
import "./keyboard.js";
import "./looks.js";
