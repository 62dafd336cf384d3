// All tests that need a browser, in one process, so that there is one browser.

import "./example.js";
import "./connection.js";
import "./delivery.js";
import "./prompting.js";
